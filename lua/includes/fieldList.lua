-- fieldList · job fields a client sends along, checked before anything is written
-- packed   msgpack array name, value, name, value .. of texts
-- Returns  table of at least one pair
-- Raises   what is wrong; correct clients never see it
-- Spec     protocol 03 S2, 6.2
local function fieldList(packed)
  local fields = cmsgpack.unpack(packed)
  local count = type(fields) == 'table' and #fields or 0
  if count == 0 or count % 2 == 1 or count > 7000 then
    error('nothing moved: the fields must be an array of names and values', 0)
  end
  for i = 1, count do
    local kind = type(fields[i])
    if kind ~= 'string' and kind ~= 'number' then error('nothing moved: field names and values must be texts', 0) end
  end
  return fields
end
