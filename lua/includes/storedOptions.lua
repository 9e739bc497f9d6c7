-- storedOptions · job options as they are stored
-- json     text
-- Returns  table  de a map with an id, or nil; delay and priority finite numbers or their texts, or nil
-- Why      another client may have written anything; what makes no sense reads as not given
-- Spec     protocol 01 section 4
local function storedOptions(json)
  local function isFinite(value)
    local number = tonumber(value)
    return number and number - number == 0
  end
  local known, opts = pcall(cjson.decode, json)
  if not known or type(opts) ~= 'table' then opts = {} end
  local de = opts.de
  if type(de) ~= 'table' or type(de.id) ~= 'string' and type(de.id) ~= 'number' then opts.de = nil end
  if not isFinite(opts.delay) then opts.delay = nil end
  if not isFinite(opts.priority) then opts.priority = nil end
  return opts
end
