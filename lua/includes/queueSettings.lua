-- queueSettings · all a script that takes jobs wants to know of its queue, in a single read
-- meta     hash   <prefix>:<queue>:meta
-- Returns  table  paused, concurrency, max, duration, limit of the event log; false where unset
-- Writes   the default limit of 10000 where no client has set one
-- Spec     protocol 03 S3, S5
local function queueSettings(meta)
  local set = redis.call('HMGET', meta, 'paused', 'concurrency', 'max', 'duration', 'opts.maxLenEvents')
  if not set[5] then
    set[5] = '10000'
    redis.call('HSET', meta, 'opts.maxLenEvents', set[5])
  end
  return set
end
