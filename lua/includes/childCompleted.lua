-- childCompleted · hands a result to the parent, which runs when this child was the last
-- parentKey  key   <prefix>:<queue>:<id>
-- childKey   key   its hash tells the parent's queue
-- value      text  JSON of the result
-- now        text  ms
-- Writes     nothing for a child that was not pending. A parent whose hash is gone only loses
--            the dependency
-- Spec       protocol 03 3.2 step 9, 6.1
--@include parentPlace
--@include releaseParent
local function childCompleted(parentKey, childKey, value, now)
  local dependencies = parentKey .. ':dependencies'
  if redis.call('SREM', dependencies, childKey) == 0 or redis.call('EXISTS', parentKey) == 0 then return end
  redis.call('HSET', parentKey .. ':processed', childKey, value)
  if redis.call('EXISTS', dependencies) == 1 then return end
  local prefix, id = parentPlace(childKey, parentKey)
  if redis.call('ZREM', prefix .. 'waiting-children', id) == 1 then
    releaseParent(string.sub(prefix, 1, -2), parentKey, id, now)
  end
end
