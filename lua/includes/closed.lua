-- closed · may no job be started in this queue now?
-- meta     hash   <prefix>:<queue>:meta
-- active   list   <prefix>:<queue>:active
-- Returns  true when paused (whatever the field holds) or at its concurrency limit
-- Spec     protocol 02 S3
local function closed(meta, active)
  local set = redis.call('HMGET', meta, 'paused', 'concurrency')
  if set[1] then return true end
  return set[2] and redis.call('LLEN', active) >= tonumber(set[2])
end
