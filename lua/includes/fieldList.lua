-- fieldList · job fields a client sends along, checked before anything is written
-- packed   msgpack array name, value, name, value ..; nil or empty text for none
-- Returns  table, perhaps empty; or nil for a list that could not be written
-- Spec     protocol 03 S2, 6.2
local function fieldList(packed)
  if not packed or packed == '' then return {} end
  local fields = cmsgpack.unpack(packed)
  if type(fields) ~= 'table' then return end
  local count = #fields
  if count == 0 or count % 2 == 1 or count > 7000 then return end
  for i = 1, count do
    local kind = type(fields[i])
    if kind ~= 'string' and kind ~= 'number' then return end
  end
  return fields
end
