-- dropDependency · a parent no longer waits for a child that will not finish
-- childKey   key      its hash, while it is there, tells the parent's queue
-- parentKey  key      <prefix>:<queue>:<id>; need not exist
-- Returns    true if the child was pending there
-- Event      waiting {jobId, prev = waiting-children}, untrimmed, on the parent's queue when
--            it waited for this child only; it goes next, whatever its delay and priority
-- Spec       protocol 03 S18 (form A), S17 (plain release)
--@include closed
--@include parentPlace
--@include pushWait
local function dropDependency(childKey, parentKey)
  local dependencies = parentKey .. ':dependencies'
  if redis.call('SREM', dependencies, childKey) == 0 then return false end
  if redis.call('EXISTS', dependencies) == 0 then
    local prefix, id = parentPlace(childKey, parentKey)
    if redis.call('ZREM', prefix .. 'waiting-children', id) == 1 then
      pushWait('RPUSH', prefix .. 'wait', prefix .. 'marker', id, closed(prefix .. 'meta', prefix .. 'active'))
      redis.call('XADD', prefix .. 'events', '*', 'event', 'waiting', 'jobId', id, 'prev', 'waiting-children')
    end
  end
  return true
end
