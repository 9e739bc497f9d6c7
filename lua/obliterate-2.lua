-- obliterate-2 · delete a paused queue, a part at a time
-- KEYS[1] meta    hash     <prefix>:<queue>:meta
-- KEYS[2] prefix  text     <prefix>:<queue>:
-- ARGV[1] count   integer  most jobs to delete in this call
-- ARGV[2] force   text     not empty: even with active jobs
-- Reply   0   all gone, and the queue no longer paused
--         1   count used up: call again
--        -1   not paused; nothing written
--        -2   active jobs and no force; nothing written
-- Event   none
-- Spec    protocol 04 2.4                       Frozen  manifest.toml
--@include deleteJob
local prefix, left = KEYS[2], tonumber(ARGV[1])
if not left or left < 1 then return redis.error_reply('obliterate: count must be a number from 1 on') end
if redis.call('HEXISTS', KEYS[1], 'paused') == 0 then return -1 end
if (ARGV[2] or '') == '' and redis.call('EXISTS', prefix .. 'active') == 1 then return -2 end

for _, state in ipairs({
  'active', 'delayed', 'repeat', 'completed', 'wait', 'paused', 'prioritized', 'failed',
}) do
  local key = prefix .. state
  local isList = state == 'active' or state == 'wait' or state == 'paused'
  local ids = redis.call(isList and 'LRANGE' or 'ZRANGE', key, '0', left - 1)
  for i = 1, #ids do
    if state == 'repeat' then
      redis.call('DEL', key .. ':' .. ids[i])
    else
      local job = redis.call('HMGET', prefix .. ids[i], 'parentKey', 'deid')
      deleteJob(prefix, ids[i], job[1], job[2])
      if state == 'active' then redis.call('DEL', prefix .. ids[i] .. ':lock') end
    end
  end
  if isList then
    redis.call('LTRIM', key, #ids, '-1')
  else
    redis.call('ZREMRANGEBYRANK', key, '0', #ids - 1)
  end
  left = left - #ids
  if left < 1 then return 1 end
end
redis.call('UNLINK', prefix .. 'events', prefix .. 'delay', prefix .. 'stalled-check', prefix .. 'stalled',
  prefix .. 'id', prefix .. 'pc', prefix .. 'marker', prefix .. 'meta',
  prefix .. 'metrics:completed', prefix .. 'metrics:completed:data',
  prefix .. 'metrics:failed', prefix .. 'metrics:failed:data')
return 0
