-- cancelJob-12 · ends a job that nobody wants any more, or asks its worker to. Ours: no other client calls it
-- KEYS[1] completed         zset    <prefix>:<queue>:completed
-- KEYS[2] failed            zset    :failed
-- KEYS[3] delayed           zset    :delayed
-- KEYS[4] active            list    :active
-- KEYS[5] wait              list    :wait
-- KEYS[6] paused            list    :paused, of clients before 5
-- KEYS[7] waiting-children  zset    :waiting-children
-- KEYS[8] prioritized       zset    :prioritized
-- KEYS[9] job               hash    <prefix>:<queue>:<id>
-- KEYS[10] events           stream  :events
-- KEYS[11] repeat           zset    :repeat
-- KEYS[12] control          stream  :echomq:control, which workers of ours read while they hold jobs
-- ARGV[1] id        text
-- ARGV[2] reason    text  what the job fails with
-- ARGV[3] token     text  the caller's own, for the lock of a job that no worker runs
-- ARGV[4] duration  ms    of that lock
-- ARGV[5] told      text  token of the worker that was asked before; empty: none was
-- ARGV[6] keep      ms    how long the wish stays to be read
-- Reply   {0, state, reason}    ended before: completed or failed, and why it failed
--         {1, token}            a worker runs it and was asked to stop it
--         {2, {field, value, ..}}  it is active and locked for the caller, who must finish it as failed
--        -1   no such job       -3   in no state      -8   the next job of a scheduler
-- Event   active {jobId, prev = waiting} for a job that was not active
-- Writes  defa, so that the job fails with the reason whoever takes it next
-- Spec    protocol 03 3.2, 6.1 (defa)          Frozen  manifest.toml
--@include jobState
--@include schedulerCurrent
local active, job, control = KEYS[4], KEYS[9], KEYS[12]
local id, reason, token, duration = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
if not duration or duration < 1 or token == '' or not tonumber(ARGV[6]) then
  return redis.error_reply('cancelJob: needs a token and two durations')
end
if redis.call('EXISTS', job) == 0 then return -1 end

local lock = job .. ':lock'
local state = jobState(id)
if state == 'unknown' then return -3 end
if state == 'completed' or state == 'failed' then
  return {0, state, redis.call('HGET', job, 'failedReason') or ''}
end
if state == 'active' then
  local holder = redis.call('GET', lock)
  if holder and holder ~= token then
    redis.call('HSET', job, 'defa', reason)
    if holder ~= ARGV[5] then
      redis.call('XADD', control, 'MAXLEN', '~', '1000', '*', 'job', id, 'token', holder, 'reason', reason)
    end
    redis.call('PEXPIRE', control, ARGV[6])
    return {1, holder}
  end
else
  if schedulerCurrent(KEYS[11], id, redis.call('HGET', job, 'rjk')) then return -8 end
  if state == 'waiting' then
    if redis.call('LREM', KEYS[5], '1', id) == 0 then redis.call('LREM', KEYS[6], '1', id) end
  else
    redis.call('ZREM', ({delayed = KEYS[3], prioritized = KEYS[8], ['waiting-children'] = KEYS[7]})[state], id)
  end
  redis.call('LPUSH', active, id)
  redis.call('XADD', KEYS[10], '*', 'event', 'active', 'jobId', id, 'prev', 'waiting')
end
redis.call('HSET', job, 'defa', reason)
redis.call('SET', lock, token, 'PX', ARGV[4])
return {2, redis.call('HGETALL', job)}
