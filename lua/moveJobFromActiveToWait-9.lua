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
--@include pushWait
--@include queueState
local active, wait, stalled, _, meta, limiter, prioritized, marker, events = unpack(KEYS)
local call, id, token, job = redis.call, ARGV[1], ARGV[2], ARGV[3]
local set = call('HMGET', job, 'name', 'priority')
if not set[1] and call('EXISTS', job) == 0 then return -1 end
local lock = job .. ':lock'
--@include leaveActive
if left == 0 then
  local limit, isClosed = queueState(meta, active)
  local priority = tonumber(set[2]) or 0
  if priority > 0 then
    -- Without a counter it goes in front of its priority.
    call('ZADD', prioritized, priority * 4294967296, id)
    if not isClosed then call('ZADD', marker, '0', '0') end
  else
    pushWait('RPUSH', wait, marker, id, isClosed)
  end
  call('XADD', events, 'MAXLEN', '~', limit, '*', 'event', 'waiting', 'jobId', id, 'prev', 'active')
elseif left ~= -3 then
  return left
elseif token ~= '0' then
  -- Given back already, so its lock protects nothing.
  call('DEL', lock)
  call('SREM', stalled, id)
end
return math.max(call('PTTL', limiter), 0)
