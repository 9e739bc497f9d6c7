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
  local function removeAll(children)
    for _, childKey in ipairs(children) do
      local prefix, id = splitKey(childKey)
      if not (skipLocked and redis.call('EXISTS', childKey .. ':lock') == 1)
          and not (skipFinished and redis.call('ZSCORE', prefix .. 'failed', id)) then
        dropDependency(childKey, jobKey)
        if isDeep then removeChildren(childKey, isDeep, skipFinished, skipLocked) end
        forgetJob(prefix, id)
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
