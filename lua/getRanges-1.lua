-- getRanges-1 · ids of the jobs of some states
-- KEYS[1] prefix       text     <prefix>:<queue>:
-- ARGV[1] first        integer  index in the order asked for
-- ARGV[2] last         integer  -1 is the end
-- ARGV[3] ascending    text     1: oldest first; else newest first
-- ARGV[..] states      text     wait, paused, active or the name of a sorted set
-- Reply   one array of ids for each state. A list, ascending: the right window, yet newest
--         first in it; the caller reverses
-- Writes  drops a very old client's marker from the tail of wait or paused
-- Spec    protocol 04 3.3                       Frozen  manifest.toml
--@include dropLegacyMarker
local prefix, first, last, ascending = KEYS[1], ARGV[1], ARGV[2], ARGV[3] == '1'
local lists = { wait = true, paused = true, active = true }
-- Oldest jobs sit at the tail of a list, so an ascending window is counted from there.
local fromTail, toTail = -1 - last, -1 - first
local call, ranges = redis.call, {}
for i = 4, #ARGV do
  local state = ARGV[i]
  local key = prefix .. state
  if (state == 'wait' or state == 'paused') and dropLegacyMarker(key) then
    ranges[#ranges + 1] = {}
  elseif not lists[state] then
    ranges[#ranges + 1] = call(ascending and 'ZRANGE' or 'ZREVRANGE', key, first, last)
  elseif ascending then
    ranges[#ranges + 1] = call('LRANGE', key, fromTail, toTail)
  else
    ranges[#ranges + 1] = call('LRANGE', key, first, last)
  end
end
return ranges
