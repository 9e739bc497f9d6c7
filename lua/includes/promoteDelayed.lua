-- promoteDelayed · makes delayed jobs wait whose time has come, 1000 at most
-- prefix    text    <prefix>:<queue>:
-- now       ms      number or text
-- isClosed  true leaves the marker alone (see closed)
-- delayed, prioritized, marker  zset     wait  list     pc  string     events  stream
-- Event     waiting {jobId, prev = delayed}, untrimmed
-- Writes    delay = 0 of each job; an id without a job is dropped
-- Spec      protocol 03 S9
--@include pushPrioritized
local function promoteDelayed(prefix, now, isClosed, delayed, wait, prioritized, pc, marker, events)
  local due = redis.call('ZRANGEBYSCORE', delayed, '0', (now + 1) * 4096 - 1, 'LIMIT', '0', '1000')
  if #due == 0 then return end
  redis.call('ZREM', delayed, unpack(due))
  local plain = {}
  for _, id in ipairs(due) do
    local job = prefix .. id
    -- An error is a key of another kind: no job. All due ids have left their set, so none may stop the rest.
    local priority = redis.pcall('HGET', job, 'priority')
    if type(priority) == 'string' or not priority and redis.call('EXISTS', job) == 1 then
      priority = tonumber(priority) or 0
      if priority == 0 then
        plain[#plain + 1] = id
      else
        pushPrioritized(prioritized, marker, pc, id, priority, true)
      end
      redis.call('XADD', events, '*', 'event', 'waiting', 'jobId', id, 'prev', 'delayed')
      redis.call('HSET', job, 'delay', '0')
    end
  end
  if plain[1] then redis.call('LPUSH', wait, unpack(plain)) end
  if not isClosed then redis.call('ZADD', marker, '0', '0') end
end
