-- reprocessJob-9 · runs a finished job again
-- KEYS[1] job          hash    <prefix>:<queue>:<id>
-- KEYS[2] events       stream  :events
-- KEYS[3] finished     zset    :completed or :failed, as ARGV[4] says
-- KEYS[4] wait         list    :wait
-- KEYS[5] meta         hash    :meta
-- KEYS[6] active       list    :active
-- KEYS[7] marker       zset    :marker
-- KEYS[8] prioritized  zset    :prioritized
-- KEYS[9] pc           string  :pc
-- ARGV[1] id
-- ARGV[2] push       text  LPUSH: behind all others. RPUSH: next to run
-- ARGV[3] property   text  failedReason or returnvalue
-- ARGV[4] state      text  failed or completed
-- ARGV[5] resetMade     text  1: attempts made start anew
-- ARGV[6] resetStarted  text  1: attempts started start anew
-- Reply   1 done   -1 job hash absent   -3 not in that state
-- Event   waiting {jobId, prev = state}, trimmed
-- Writes  the parent's record of this child (see childReturns). A deferred failure goes: it
--         belonged to the run that is over
-- Spec    protocol 03 3.11, 6.1                Frozen  manifest.toml
--@include childReturns
--@include pushPrioritized
--@include pushWait
--@include queueState
local job, id, push, state = KEYS[1], ARGV[1], ARGV[2], ARGV[4]
if push ~= 'LPUSH' and push ~= 'RPUSH' or not state then
  return redis.error_reply('reprocessJob: needs LPUSH or RPUSH, a property and a state')
end
if redis.call('EXISTS', job) == 0 then return -1 end
if redis.call('ZREM', KEYS[3], id) == 0 then return -3 end
local gone = {'finishedOn', 'processedOn', 'defa', ARGV[3]}
if ARGV[5] == '1' then gone[#gone + 1] = 'atm' end
if ARGV[6] == '1' then gone[#gone + 1] = 'ats' end
redis.call('HDEL', job, unpack(gone))
local limit, isClosed = queueState(KEYS[5], KEYS[6])
local priority = tonumber(redis.call('HGET', job, 'priority')) or 0
if priority == 0 then
  pushWait(push, KEYS[4], KEYS[7], id, isClosed)
else
  pushPrioritized(KEYS[8], KEYS[7], KEYS[9], id, priority, isClosed)
end
childReturns(job, state)
redis.call('XADD', KEYS[2], 'MAXLEN', '~', limit, '*', 'event', 'waiting', 'jobId', id, 'prev', state)
return 1
