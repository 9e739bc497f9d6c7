-- moveToWaitingChildren-7 · an active parent waits for its children
-- KEYS[1]  active            list    <prefix>:<queue>:active
-- KEYS[2]  waiting-children  zset    :waiting-children
-- KEYS[3]  job               hash    :<id>
-- KEYS[4]  dependencies      set     :<id>:dependencies
-- KEYS[5]  unsuccessful      zset    :<id>:unsuccessful
-- KEYS[6]  stalled           set     :stalled
-- KEYS[7]  events            stream  :events
-- ARGV[1]  token  text
-- ARGV[2]  child  text  key of the child to wait for; empty for any
-- ARGV[3]  now    ms
-- ARGV[4]  id
-- ARGV[5]  prefix text  unused
-- Reply    0 moved   1 nothing to wait for, still active   -1 job hash absent   -2 no lock
--         -3 not active   -6 another token holds the lock   -9 a child has failed
-- Event    waiting-children {jobId, prev = active}, untrimmed
-- Spec     protocol 03 3.5                      Frozen  manifest.toml
local active, waitingChildren, job, dependencies, unsuccessful, stalled, events = unpack(KEYS)
local call, token, child, now, id = redis.call, ARGV[1], ARGV[2], ARGV[3], ARGV[4]
-- NaN and the infinities differ from themselves by something that is not 0.
local time = tonumber(now)
if not (time and time - time == 0) then
  return redis.error_reply('moveToWaitingChildren: needs a timestamp')
end
if call('EXISTS', job) == 0 then return -1 end
if call('EXISTS', unsuccessful) == 1 then return -9 end
local pending
if child == '' then
  pending = call('EXISTS', dependencies)
else
  pending = call('SISMEMBER', dependencies, child)
end
if pending == 0 then return 1 end
local lock = job .. ':lock'
--@include leaveActive
if left ~= 0 then return left end
call('ZADD', waitingChildren, now, id)
call('XADD', events, '*', 'event', 'waiting-children', 'jobId', id, 'prev', 'active')
return 0
