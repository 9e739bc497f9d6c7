-- moveJobsToWait-8 · let all failed, completed or delayed jobs run (again), a part at a time
-- KEYS[1] prefix  text    <prefix>:<queue>:
-- KEYS[2] events  stream  <prefix>:<queue>:events
-- KEYS[3] jobs    zset    <prefix>:<queue>:<state>
-- KEYS[4] wait    list    <prefix>:<queue>:wait; priorities are not looked at
-- KEYS[5] paused  list    unused
-- KEYS[6] meta    hash    <prefix>:<queue>:meta
-- KEYS[7] active  list    <prefix>:<queue>:active
-- KEYS[8] marker  zset    <prefix>:<queue>:marker
-- ARGV[1] count   integer most jobs to move in this call
-- ARGV[2] until   number  highest score: ms, for delayed jobs ms * 4096
-- ARGV[3] state   text    failed, completed or delayed
-- Reply   1   count used up: call again
--         0   no more
-- Event   waiting {jobId, prev = state}, trimmed, for each job
-- Writes  deletes the outcome of a finished job; it is pending at its parent again
-- Spec    protocol 04 2.10                      Frozen  manifest.toml
--@include childReturns
--@include closed
--@include inChunks
--@include maxEvents
local prefix, events, jobs, wait = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local count, state = tonumber(ARGV[1]), ARGV[3]
local outcomes = { failed = 'failedReason', completed = 'returnvalue' }
local outcome = outcomes[state]
if not (count and (outcome or state == 'delayed')) then
  return redis.error_reply('moveJobsToWait: count must be a number and the state failed, completed or delayed')
end

local ids = redis.call('ZRANGEBYSCORE', jobs, '0', ARGV[2], 'LIMIT', '0', count)
if #ids > 0 then
  local call, limit = redis.call, maxEvents(KEYS[6])
  for i = 1, #ids do
    if outcome then
      local job = prefix .. ids[i]
      call('HDEL', job, 'finishedOn', 'processedOn', outcome)
      childReturns(job, state)
    end
    call('XADD', events, 'MAXLEN', '~', limit, '*', 'event', 'waiting', 'jobId', ids[i], 'prev', state)
  end
  inChunks('ZREM', jobs, ids)
  inChunks('LPUSH', wait, ids)
  if not closed(KEYS[6], KEYS[7]) then redis.call('ZADD', KEYS[8], '0', '0') end
end
return #ids < count and 0 or 1
