-- dropFromParentHard · takes a job that vanishes out of its parent's dependencies
-- prefix     text  <prefix>:<queue>: of the job
-- jobKey     key   the job
-- parentKey  key   its parentKey, or false
-- dedupId    text  its deid, or false
-- Effect     A parent that waited for this job alone vanishes with it when it lives in the
--            same queue; in another queue it goes to wait, without an event
-- Spec       protocol 04 M5, hard
--@include closed
--@include parentPlace
--@include pushWait
--@include removeJobKeys
local function dropFromParentHard(prefix, jobKey, parentKey, dedupId)
  if not parentKey or parentKey == '' or redis.call('EXISTS', parentKey) == 0 then return end
  local dependencies = parentKey .. ':dependencies'
  if redis.call('SREM', dependencies, jobKey) == 0 or redis.call('EXISTS', dependencies) == 1 then return end
  local queue, parentId = parentPlace(jobKey, parentKey)
  if redis.call('ZREM', queue .. 'waiting-children', parentId) == 0 then return end
  if queue ~= prefix then
    pushWait('RPUSH', queue .. 'wait', queue .. 'marker', parentId, closed(queue .. 'meta', queue .. 'active'))
    return
  end
  local parent = redis.call('HMGET', parentKey, 'parentKey', 'deid')
  dropFromParentHard(prefix, parentKey, parent[1], parent[2])
  removeJobKeys(parentKey)
  if dedupId then redis.call('DEL', prefix .. 'de:' .. dedupId) end
end
