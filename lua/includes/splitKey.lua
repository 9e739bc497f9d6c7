-- splitKey · base key and id of a child of which only the key is known
-- key      text  <prefix>:<queue>:<id>; all three may hold colons
-- Returns  base key with its trailing colon; id
-- Why      nothing stored tells where the id begins, but a queue has a meta key. Where none is
--          found the id is what follows the last colon
-- Spec     protocol 03 S22, 6.1; 01 section 1
local knownBases = {}
local function splitKey(key)
  local cut = string.find(key, ':[^:]*$')
  local at = cut
  while at do
    local base = string.sub(key, 1, at)
    if knownBases[base] or redis.call('EXISTS', base .. 'meta') == 1 then
      knownBases[base] = true
      return base, string.sub(key, at + 1)
    end
    at = string.find(string.sub(key, 1, at - 1), ':[^:]*$')
  end
  return string.sub(key, 1, cut), string.sub(key, cut + 1)
end
