-- removeChildren · removes the children of a job, and theirs
-- jobKey        key   <prefix>:<queue>:<id>
-- isDeep        true  go on below each child
-- skipFinished  true  spare children that completed or failed
-- skipLocked    true  spare children that are being processed, with all below them
-- Event         on the child's queue: removed {jobId, prev}, trimmed; and the parent's waiting
--               where the last child it waited for goes
-- Spec          protocol 03 S21
--@include dropDependency
--@include freeDedup
--@include maxEvents
--@include removeJobKeys
--@include splitKey
local function removeChildren(jobKey, isDeep, skipFinished, skipLocked)
  local function leaveState(prefix, id)
    for _, state in ipairs({'completed', 'waiting-children', 'delayed', 'failed', 'prioritized'}) do
      if redis.call('ZREM', prefix .. state, id) == 1 then return state end
    end
    for _, state in ipairs({'wait', 'paused', 'active'}) do
      if redis.call('LREM', prefix .. state, '1', id) == 1 then return state end
    end
    return 'unknown'
  end
  local function removeAll(children)
    for _, childKey in ipairs(children) do
      local prefix, id = splitKey(childKey)
      if not (skipLocked and redis.call('EXISTS', childKey .. ':lock') == 1)
          and not (skipFinished and redis.call('ZSCORE', prefix .. 'failed', id)) then
        dropDependency(childKey, jobKey)
        if isDeep then removeChildren(childKey, isDeep, skipFinished, skipLocked) end
        local previous = leaveState(prefix, id)
        freeDedup(prefix, id, redis.call('HGET', childKey, 'deid'))
        if removeJobKeys(childKey) > 0 then
          redis.call('XADD', prefix .. 'events', 'MAXLEN', '~', maxEvents(prefix .. 'meta'), '*',
            'event', 'removed', 'jobId', id, 'prev', previous)
        end
      end
    end
  end
  if not skipFinished then
    removeAll(redis.call('HKEYS', jobKey .. ':processed'))
    removeAll(redis.call('HKEYS', jobKey .. ':failed'))
    removeAll(redis.call('ZRANGE', jobKey .. ':unsuccessful', '0', '-1'))
  end
  removeAll(redis.call('SMEMBERS', jobKey .. ':dependencies'))
end
