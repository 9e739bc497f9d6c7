-- moveJobFromActiveToWait-9 · a worker gives a job back, which is next to run again
-- KEYS[1] active       list    <prefix>:<queue>:active
-- KEYS[2] wait         list    :wait
-- KEYS[3] stalled      set     :stalled
-- KEYS[4] paused       list    :paused; unused
-- KEYS[5] meta         hash    :meta
-- KEYS[6] limiter      string  :limiter
-- KEYS[7] prioritized  zset    :prioritized
-- KEYS[8] marker       zset    :marker
-- KEYS[9] events       stream  :events
-- ARGV[1] id
-- ARGV[2] token  text
-- ARGV[3] job    key   <prefix>:<queue>:<id>
-- Reply   ms until the rate limit ends, 0 without one; also for a job that was not active
--        -1 job hash absent   -2 no lock   -6 another token holds the lock
-- Event   waiting {jobId, prev = active}, trimmed
-- Spec    protocol 03 3.6                      Frozen  manifest.toml
--@include leaveActive
--@include pushWait
--@include queueState
local active, marker, job, id, token = KEYS[1], KEYS[8], ARGV[3], ARGV[1], ARGV[2]
local set = redis.call('HMGET', job, 'name', 'priority')
if not set[1] and redis.call('EXISTS', job) == 0 then return -1 end
local left = leaveActive(active, KEYS[3], job .. ':lock', id, token)
if left == 0 then
  local limit, isClosed = queueState(KEYS[5], active)
  local priority = tonumber(set[2]) or 0
  if priority > 0 then
    -- Without a counter it goes in front of its priority.
    redis.call('ZADD', KEYS[7], priority * 4294967296, id)
    if not isClosed then redis.call('ZADD', marker, '0', '0') end
  else
    pushWait('RPUSH', KEYS[2], marker, id, isClosed)
  end
  redis.call('XADD', KEYS[9], 'MAXLEN', '~', limit, '*', 'event', 'waiting', 'jobId', id, 'prev', 'active')
elseif left ~= -3 then
  return left
elseif token ~= '0' then
  -- Given back already, so its lock protects nothing.
  redis.call('DEL', job .. ':lock')
  redis.call('SREM', KEYS[3], id)
end
return math.max(redis.call('PTTL', KEYS[6]), 0)
