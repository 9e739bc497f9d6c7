-- maxEvents · how many entries the event log may keep
-- meta     hash   <prefix>:<queue>:meta
-- Returns  text or number for XADD MAXLEN ~
-- Writes   the default of 10000 where no client has set a limit
-- Spec     protocol 02 S1
local function maxEvents(meta)
  local limit = redis.call('HGET', meta, 'opts.maxLenEvents')
  if not limit then
    limit = '10000'
    redis.call('HSET', meta, 'opts.maxLenEvents', limit)
  end
  return limit
end
