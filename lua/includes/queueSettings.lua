-- queueSettings · all a script that takes jobs wants to know of its queue, in a single read; runs in place
-- Needs    call, redis.call; meta, hash <prefix>:<queue>:meta
-- Gives    queue, table: paused, concurrency, max, duration, limit of the event log; false where unset
-- Writes   the default limit of 10000 where no client has set one
-- Spec     protocol 03 S3, S5
local queue = call('HMGET', meta, 'paused', 'concurrency', 'max', 'duration', 'opts.maxLenEvents')
if not queue[5] then
  queue[5] = '10000'
  call('HSET', meta, 'opts.maxLenEvents', '10000')
end
