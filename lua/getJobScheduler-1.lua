-- getJobScheduler-1 · one scheduler's record and its current slot
-- KEYS[1] repeat  zset  <prefix>:<queue>:repeat; <repeat>:<id> is the record
-- ARGV[1] id      text  of the scheduler
-- Reply   [[field, value, ...], slot in ms as text]; empty if there is no such scheduler
-- Spec    protocol 02 section 4.3                     Frozen  manifest.toml
local schedulers, id = KEYS[1], ARGV[1]

local slot = redis.call('ZSCORE', schedulers, id)
if not slot then return {} end
return { redis.call('HGETALL', schedulers .. ':' .. id), slot }
