-- queueState · maxEvents and closed in a single read, for scripts that need both
-- meta     hash   <prefix>:<queue>:meta
-- active   list   <prefix>:<queue>:active
-- Returns  limit of the event log; true when no job may be started now
-- Writes   the default of 10000 where no client has set a limit
-- Spec     protocol 02 S1, S3
local function queueState(meta, active)
  local set = redis.call('HMGET', meta, 'opts.maxLenEvents', 'paused', 'concurrency')
  local limit = set[1]
  if not limit then
    limit = '10000'
    redis.call('HSET', meta, 'opts.maxLenEvents', limit)
  end
  if set[2] then return limit, true end
  return limit, set[3] and redis.call('LLEN', active) >= tonumber(set[3])
end
