-- releaseParent · sends a parent, already out of its set, on to run or to be delayed
-- queueKey   text    qualified name of the parent's queue, no trailing colon
-- parentKey  key     <queueKey>:<parentId>; its delay and priority decide where it goes
-- parentId   text
-- now        ms      number or text
-- Event      on the parent's queue, untrimmed: delayed {jobId, delay = ms when due}
--            or waiting {jobId, prev = waiting-children}
-- Spec       protocol 02 S12, 03 S17 (full release)
--@include closed
--@include pushWait
--@include pushPrioritized
--@include delayMarker
local function releaseParent(queueKey, parentKey, parentId, now)
  local prefix = queueKey .. ':'
  local marker, events = prefix .. 'marker', prefix .. 'events'
  local set = redis.call('HMGET', parentKey, 'priority', 'delay')
  local priority, delay = tonumber(set[1]) or 0, tonumber(set[2]) or 0
  if delay > 0 then
    local delayed, due = prefix .. 'delayed', now + delay
    redis.call('ZADD', delayed, due * 4096, parentId)
    redis.call('XADD', events, '*', 'event', 'delayed', 'jobId', parentId, 'delay', due)
    delayMarker(marker, delayed)
    return
  end
  local isClosed = closed(prefix .. 'meta', prefix .. 'active')
  if priority == 0 then
    pushWait('RPUSH', prefix .. 'wait', marker, parentId, isClosed)
  else
    pushPrioritized(prefix .. 'prioritized', marker, prefix .. 'pc', parentId, priority, isClosed)
  end
  redis.call('XADD', events, '*', 'event', 'waiting', 'jobId', parentId, 'prev', 'waiting-children')
end
