-- pushPrioritized · queues a job by priority and, in an open queue, wakes a worker
-- prioritized  zset    <prefix>:<queue>:prioritized
-- marker       zset    <prefix>:<queue>:marker
-- pc           string  <prefix>:<queue>:pc, breaks ties: first come, first served
-- id           text
-- priority     number  or its text; low runs first
-- isClosed     true leaves the marker alone (see closed)
-- Spec         protocol 02 S6; 01 section 5
local function pushPrioritized(prioritized, marker, pc, id, priority, isClosed)
  local score = priority * 4294967296 + redis.call('INCR', pc) % 4294967296
  -- NaN, which the set refuses: the job has left its place and has to stand somewhere.
  if score ~= score then score = 0 end
  redis.call('ZADD', prioritized, score, id)
  if not isClosed then redis.call('ZADD', marker, '0', '0') end
end
