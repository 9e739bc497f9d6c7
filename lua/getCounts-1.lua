-- getCounts-1 · how many jobs each state holds
-- KEYS[1] prefix       text    <prefix>:<queue>:
-- ARGV[1] cutoff       ms      optional: of the delayed jobs count only those due before
-- ARGV[..] states      text    wait, paused, active or the name of a sorted set
-- Reply   one integer for each state, in the order asked
-- Writes  drops a very old client's marker from the tail of wait or paused
-- Spec    protocol 04 3.1                       Frozen  manifest.toml
--@include dropLegacyMarker
local prefix = KEYS[1]
local cutoff = tonumber(ARGV[1])
local call, counts = redis.call, {}
for i = cutoff and 2 or 1, #ARGV do
  local state, count = ARGV[i], nil
  local key = prefix .. state
  if state == 'wait' or state == 'paused' then
    count = dropLegacyMarker(key) and 0 or call('LLEN', key)
  elseif state == 'active' then
    count = call('LLEN', key)
  elseif cutoff and state == 'delayed' then
    count = call('ZCOUNT', key, '-inf', string.format('(%.17g', cutoff * 4096))
  else
    count = call('ZCARD', key)
  end
  counts[#counts + 1] = count
end
return counts
