-- removeJobScheduler-3 · ends a scheduler; its next job goes only if it is still delayed
-- KEYS[1] repeat   zset    <prefix>:<queue>:repeat; <repeat>:<id> is the record
-- KEYS[2] delayed  zset    <prefix>:<queue>:delayed
-- KEYS[3] events   stream  <prefix>:<queue>:events
-- ARGV[1] id       text    of the scheduler
-- ARGV[2] prefix   text    <prefix>:<queue>: of the job's keys
-- Reply   0   removed
--         1   no such scheduler
-- Event   removed {jobId, prev = delayed}, untrimmed
-- Spec    protocol 02 section 4.3                     Frozen  manifest.toml
local schedulers, delayed, events = KEYS[1], KEYS[2], KEYS[3]
local id, prefix = ARGV[1], ARGV[2]

--@include removeJobKeys

local slot = redis.call('ZSCORE', schedulers, id)
if not slot then return 1 end
local jobId = 'repeat:' .. id .. ':' .. slot
if redis.call('ZREM', delayed, jobId) == 1 then
  removeJobKeys(prefix .. jobId)
  redis.call('XADD', events, '*', 'event', 'removed', 'jobId', jobId, 'prev', 'delayed')
end
redis.call('ZREM', schedulers, id)
redis.call('DEL', schedulers .. ':' .. id)
return 0
