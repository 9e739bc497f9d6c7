-- takeUpTo · promotes what is due, then takes jobs until there are enough, as one take after the other would
-- prefix, now, limiter, events, marker   as in takeJob
-- opts          table   lockDuration, limiter, name (see checkTake)
-- tokens        table   one for each job that is wanted; the first job taken is locked with the first
-- set           table   paused, concurrency, max, duration of the queue's meta
-- wait, active  list    prioritized, delayed  zset    pc  string
-- Returns  jobs    table   id, {field, value, ..}, id, ..
--          ttl     number  ms for which the queue is rate limited; 0: it is not, and no other job is ready;
--                          -1: all were taken that were asked for, or as much as one reply may carry
--          due     number  when the first delayed job is due, if none is ready; else 0
--          isNone  true    none was ready, and none is delayed
--          fault   an error reply: max without duration
-- Why      what a take asks of the queue is asked once for all of them, and a job's hash is read once
-- Spec     protocol 03 S11, S12
--@include lockRead
local function takeUpTo(
  prefix, now, opts, tokens, set, wait, active, prioritized, events, limiter, delayed, pc, marker)
  local wanted = #tokens
  local room = set[1] and 0 or set[2] and tonumber(set[2]) - redis.call('LLEN', active) or wanted
  local head = redis.call('ZRANGE', delayed, '0', '0', 'WITHSCORES')[2]
  local isDue = head and tonumber(head) < (now + 1) * 4096
  -- The queue's max wins, the worker's duration wins.
  local limits = opts.limiter
  local max, duration = tonumber(set[3] or limits and limits.max), tonumber(limits and limits.duration or set[4])
  if duration then
    duration = math.floor(math.abs(duration))
  elseif max and room > 0 and redis.call('EXISTS', limiter) == 0
      and (isDue or redis.call('EXISTS', wait, prioritized) > 0) then
    return {}, 0, 0, false, redis.error_reply('no job taken: the rate limit has max but no duration')
  end
  if isDue then
--@include promoteDelayed
    promoteDelayed(prefix, now, room <= 0, delayed, wait, prioritized, pc, marker, events)
    head = redis.call('ZRANGE', delayed, '0', '0', 'WITHSCORES')[2]
  end

  local jobs, count, bytes, ghosts = {}, 0, 0, 0
  while count < wanted and bytes < 262144 do
    if max then
--@include rateLimitTtl
      local ttl = rateLimitTtl(limiter, max)
      if ttl > 0 then return jobs, ttl, 0 end
    end
    if count >= room then return jobs, 0, 0 end
    if ghosts == 1000 then
      redis.call('ZADD', marker, '0', '0')
      return jobs, 0, head and head / 4096 or 0
    end
    local id = redis.call('RPOPLPUSH', wait, active)
    if not id then
      id = redis.call('ZPOPMIN', prioritized)[1]
      if not id then
        redis.call('DEL', pc)
        return jobs, 0, head and head / 4096 or 0, not head
      end
      redis.call('LPUSH', active, id)
    end
    -- An error is a key of another kind: no job.
    local fields = redis.pcall('HGETALL', prefix .. id)
    if #fields > 0 then
      count = count + 1
      bytes = bytes + lockRead(prefix .. id, id, fields, now, opts, tokens[count], max, duration, limiter, events)
      jobs[2 * count - 1], jobs[2 * count] = id, fields
      if count == 1 then redis.call('ZADD', marker, '0', '0') end
    else
      -- An id without a job is dropped; a queue full of them must not block the server.
      redis.call('LPOP', active)
      ghosts = ghosts + 1
    end
  end
  return jobs, -1, 0
end
