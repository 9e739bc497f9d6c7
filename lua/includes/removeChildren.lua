-- removeChildren · removes the children of a job, and theirs
-- jobKey        key   <prefix>:<queue>:<id>
-- isDeep        true  go on below each child
-- skipFinished  true  spare children that completed or failed
-- skipLocked    true  spare children that are being processed, with all below them
-- Event         on the child's queue: removed {jobId, prev}, trimmed; and the parent's waiting
--               where the last child it waited for goes
-- Spec          protocol 03 S21
--@include dropDependency
--@include forgetJob
--@include splitKey
local function removeChildren(jobKey, isDeep, skipFinished, skipLocked)
  local sets = {'completed', 'waiting-children', 'delayed', 'failed', 'prioritized'}
  local lists = {'wait', 'paused', 'active'}
  local limits = {}
  local function leaveState(prefix, id)
    for _, state in ipairs(sets) do
      if redis.call('ZREM', prefix .. state, id) == 1 then return state end
    end
    for _, state in ipairs(lists) do
      if redis.call('LREM', prefix .. state, '1', id) == 1 then return state end
    end
    return 'unknown'
  end
  local removeBelow
  local function removeAll(children, parentKey)
    for _, childKey in ipairs(children) do
      local prefix, id = splitKey(childKey)
      if not (skipLocked and redis.call('EXISTS', childKey .. ':lock') == 1)
          and not (skipFinished and redis.call('ZSCORE', prefix .. 'failed', id)) then
        dropDependency(childKey, parentKey)
        if isDeep then removeBelow(childKey) end
        local previous = leaveState(prefix, id)
        freeDedup(prefix, id, redis.call('HGET', childKey, 'deid'))
        if removeJobKeys(childKey) > 0 then
          limits[prefix] = limits[prefix] or maxEvents(prefix .. 'meta')
          redis.call('XADD', prefix .. 'events', 'MAXLEN', '~', limits[prefix], '*',
            'event', 'removed', 'jobId', id, 'prev', previous)
        end
      end
    end
  end
  function removeBelow(parentKey)
    if not skipFinished then
      removeAll(redis.call('HKEYS', parentKey .. ':processed'), parentKey)
      removeAll(redis.call('HKEYS', parentKey .. ':failed'), parentKey)
      removeAll(redis.call('ZRANGE', parentKey .. ':unsuccessful', '0', '-1'), parentKey)
    end
    removeAll(redis.call('SMEMBERS', parentKey .. ':dependencies'), parentKey)
  end
  removeBelow(jobKey)
end
