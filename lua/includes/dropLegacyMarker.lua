-- dropLegacyMarker · rids a list of waiting jobs of the marker a very old client left
-- list     list  <prefix>:<queue>:wait or paused
-- Returns  true where the marker (an id that begins 0:) is all there is; it stays then
-- Writes   pops it from the tail otherwise
-- Spec     protocol 04 M10
local function dropLegacyMarker(list)
  local last = redis.call('LINDEX', list, '-1')
  if not last or last:sub(1, 2) ~= '0:' then return false end
  if redis.call('LLEN', list) == 1 then return true end
  redis.call('RPOP', list)
  return false
end
