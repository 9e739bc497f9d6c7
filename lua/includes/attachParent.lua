-- attachParent · an add met a job of the same id: give that job the parent sent, if any
-- args        table   ARGV[1] of the add scripts, decoded
-- jobKey, id          the job that exists
-- parentJson  text    JSON of the parent map, read with a parent key only
-- completed   zset    <prefix>:<queue>:completed
-- events      stream  <prefix>:<queue>:events
-- limit       MAXLEN of the event log
-- Returns     id, or -7: the job has another, living parent
-- Event       duplicated {jobId}, trimmed; on the parent's queue those of releaseParent
-- Spec        protocol 02 S11
--@include releaseIdleParent
local function attachParent(args, jobKey, id, parentJson, completed, events, limit)
  local parentKey, parent, defer = args[5], args[7], args[10]
  if parentKey then
    local old = redis.call('HGET', jobKey, 'parentKey')
    if old and old ~= parentKey and redis.call('EXISTS', old) == 1 then
      -- The release at the end of the flow then leaves this parent where it is.
      if defer then redis.call('HSET', parentKey, 'flowAttachmentFailed', '1') end
      return -7
    end
    if redis.call('ZSCORE', completed, id) then
      local value = redis.call('HGET', jobKey, 'returnvalue')
      if not value then error('completed job ' .. jobKey .. ' has no returnvalue', 0) end
      if not (defer or parent) then error('no parent map for ' .. jobKey, 0) end
      redis.call('HSET', parentKey .. ':processed', jobKey, value)
      if not defer then
        releaseIdleParent(parent.queueKey, parentKey .. ':dependencies', parentKey, parent.id, args[4])
      end
    elseif args[6] then
      redis.call('SADD', args[6], jobKey)
    end
    redis.call('HSET', jobKey, 'parentKey', parentKey, 'parent', parentJson)
  end
  redis.call('XADD', events, 'MAXLEN', '~', limit, '*', 'event', 'duplicated', 'jobId', id)
  return id
end
