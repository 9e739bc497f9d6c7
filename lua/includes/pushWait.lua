-- pushWait · makes a job wait and, in an open queue, wakes a worker
-- push      text   LPUSH: behind all others. RPUSH: next to run
-- wait      list   <prefix>:<queue>:wait; takes jobs of a paused queue too
-- marker    zset   <prefix>:<queue>:marker
-- id        text
-- isClosed  true leaves the marker alone (see closed)
-- Spec      protocol 02 S4, S5
local function pushWait(push, wait, marker, id, isClosed)
  redis.call(push, wait, id)
  if not isClosed then redis.call('ZADD', marker, '0', '0') end
end
