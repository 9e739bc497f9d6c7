-- fetchNext · promotes what is due, then takes the next job
-- prefix, now, opts, limiter, events, marker   as in takeJob
-- set           table   paused, concurrency, max, duration of the queue's meta
-- isFinish      true    called by a script that ends a job: another rule for legacy markers
-- wait, active  list    prioritized, delayed  zset    pc  string
-- Returns  {{field, value, ..}, id, 0, 0}  a job
--          {0, 0, ttl, 0}        rate limited for ttl ms
--          {0, 0, 0, timestamp}  none ready, the first delayed one is due then
--          {0, 0, 0, 0}          paused or at the concurrency limit
--          nil                   none at all
--          an error reply        max without duration: refused before a job moves
-- Spec     protocol 03 S12, 3.1
local function fetchNext(
  prefix, now, opts, set, isFinish, wait, active, prioritized, events, limiter, delayed, pc, marker)
  local call = redis.call
  local isClosed = set[1] or set[2] and call('LLEN', active) >= tonumber(set[2])
  local head = call('ZRANGE', delayed, '0', '0', 'WITHSCORES')[2]
  local isDue = head and tonumber(head) < (now + 1) * 4096
  -- The queue's max wins, the worker's duration wins.
  local limits, max, duration = opts.limiter, nil, nil
  if limits or set[3] then
    max, duration = tonumber(set[3] or limits.max), tonumber(limits and limits.duration or set[4])
    if duration then
      duration = math.floor(math.abs(duration))
    elseif max and not isClosed and call('EXISTS', limiter) == 0
        and (isDue or call('EXISTS', wait, prioritized) > 0) then
      return redis.error_reply('no job taken: the rate limit has max but no duration')
    end
  end
  -- An include inside a branch costs nothing where it is not taken.
  if isDue then
--@include promoteDelayed
    promoteDelayed(prefix, now, isClosed, delayed, wait, prioritized, pc, marker, events)
    head = call('ZRANGE', delayed, '0', '0', 'WITHSCORES')[2]
  end
  if max then
--@include rateLimitTtl
    local ttl = rateLimitTtl(limiter, max)
    if ttl > 0 then return {0, 0, ttl, 0} end
  end
  if isClosed then return {0, 0, 0, 0} end
  -- An id without a job is dropped; a queue full of them must not block the server.
  for attempt = 1, 1000 do
    local id = wait and call('RPOPLPUSH', wait, active)
    if not id then
      id = call('ZPOPMIN', prioritized)[1]
      if not id then
        call('DEL', pc)
        break
      end
      call('LPUSH', active, id)
    end
--@include takeJob
    if taken then return taken end
    call('LPOP', active)
    if attempt == 1000 then call('ZADD', marker, '0', '0') end
    -- Old versions left 0:0 for a prioritized job and 0:<ms> for a delayed one.
    if isFinish and string.sub(id, 1, 2) == '0:' then
      if id ~= '0:0' then break end
      if call('EXISTS', prioritized) == 1 then wait = nil end
    end
  end
  if head then return {0, 0, 0, head / 4096} end
end
