-- extendLock-2 · a worker keeps a job
-- KEYS[1] lock     string  <prefix>:<queue>:<id>:lock
-- KEYS[2] stalled  set     <prefix>:<queue>:stalled
-- ARGV[1] token     text
-- ARGV[2] duration  ms
-- ARGV[3] id
-- Reply   1 extended   0 not held with this token
-- Spec    protocol 03 3.8                      Frozen  manifest.toml
local duration = tonumber(ARGV[2])
if not (duration and duration >= 1 and duration % 1 == 0) then
  return redis.error_reply('extendLock: the duration of a lock must be whole milliseconds above 0')
end
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
redis.call('SREM', KEYS[2], ARGV[3])
return 1
