-- moveStalledJobsToWait-9 · recovers jobs whose worker has gone, then suspects all active ones
-- KEYS[1] stalled        set     <prefix>:<queue>:stalled, what the last pass found active
-- KEYS[2] wait           list    :wait
-- KEYS[3] active         list    :active
-- KEYS[4] stalled-check  string  :stalled-check, there while no other pass may run
-- KEYS[5] meta           hash    :meta
-- KEYS[6] paused         list    :paused; unused
-- KEYS[7] marker         zset    :marker
-- KEYS[8] events         stream  :events
-- KEYS[9] repeat         zset    :repeat, and the scheduler records repeat:<scheduler>
-- ARGV[1] max       how often a job may stall; jobs of schedulers always come back
-- ARGV[2] prefix    text  <prefix>:<queue>:, keys of jobs and locks are made with it
-- ARGV[3] now       ms
-- ARGV[4] interval  ms    in which no other pass runs
-- Reply   ids recovered, in the set's order
-- Event   for each waiting {jobId, prev = active}, then stalled {jobId}; untrimmed
-- Writes  stc of each; defa of one over the limit: the worker that takes it fails it. An id
--         without a job leaves active and is dropped
-- Spec    protocol 03 3.7                      Frozen  manifest.toml
--@include inChunks
--@include maxEvents
local stalled, wait, active, events = KEYS[1], KEYS[2], KEYS[3], KEYS[8]
local maxStalls, prefix = tonumber(ARGV[1]), ARGV[2]
if not maxStalls then return redis.error_reply('moveStalledJobsToWait: needs a number of stalls') end
if redis.call('EXISTS', KEYS[4]) == 1 then return {} end
redis.call('SET', KEYS[4], ARGV[3], 'PX', ARGV[4])
redis.call('XTRIM', events, 'MAXLEN', '~', maxEvents(KEYS[5]))

local function isScheduled(scheduler)
  return scheduler and (redis.call('EXISTS', KEYS[9] .. ':' .. scheduler) == 1
    or redis.call('ZSCORE', KEYS[9], scheduler))
end

local recovered = {}
local function recover(id)
  -- Lost jobs are among the oldest, and those are at the tail.
  if redis.call('LREM', active, '-1', id) == 0 then return end
  local job = prefix .. id
  -- Nothing may stop the pass here: those recovered so far are in no list until its end.
  local set = redis.pcall('HMGET', job, 'name', 'stc', 'rjk')
  if set.err or not set[1] and redis.call('EXISTS', job) == 0 then return end
  local stalls = (tonumber(set[2]) or 0) + 1
  if stalls > maxStalls and not isScheduled(set[3]) then
    redis.call('HSET', job, 'stc', stalls, 'defa', 'job stalled more than allowable limit')
  else
    redis.call('HSET', job, 'stc', stalls)
  end
  redis.call('XADD', events, '*', 'event', 'waiting', 'jobId', id, 'prev', 'active')
  redis.call('XADD', events, '*', 'event', 'stalled', 'jobId', id)
  recovered[#recovered + 1] = id
end

local suspects = redis.call('SMEMBERS', stalled)
if suspects[1] then redis.call('DEL', stalled) end
for first = 1, #suspects, 5000 do
  local locks = {}
  for i = first, math.min(first + 4999, #suspects) do locks[#locks + 1] = prefix .. suspects[i] .. ':lock' end
  for i, holder in ipairs(redis.call('MGET', unpack(locks))) do
    if not holder then recover(suspects[first + i - 1]) end
  end
end
if recovered[1] then
  inChunks('RPUSH', wait, recovered)
  -- Jobs only left active, so the queue is as open now as it was for any of them.
  local set = redis.call('HMGET', KEYS[5], 'paused', 'concurrency')
  if not set[1] and not (set[2] and redis.call('LLEN', active) >= tonumber(set[2])) then
    redis.call('ZADD', KEYS[7], '0', '0')
  end
end
inChunks('SADD', stalled, redis.call('LRANGE', active, '0', '-1'))
return recovered
