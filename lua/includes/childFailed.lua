-- childFailed · what the failure of a child means for its parent
-- parent    table  the child's parent field: id, queueKey and at most one of fpof, cpof, idof, rdof
-- childKey  text
-- reason    text   kept where the parent goes on in spite of the failure
-- now       text   ms
-- Writes    nothing for a child that was not pending or has no policy. A parent whose hash is
--           gone only loses the dependency
-- Why       a parent that has ended keeps no deferred failure: it would fail its next run
-- Spec      protocol 03 S19, 6.1
--@include releaseWaitingParent
--@include releaseIdleParent
local function childFailed(parent, childKey, reason, now)
  if not (parent.fpof or parent.cpof or parent.idof or parent.rdof) then return end
  local queueKey, id = parent.queueKey, parent.id
  local parentKey = queueKey .. ':' .. id
  local dependencies = parentKey .. ':dependencies'
  if redis.call('SREM', dependencies, childKey) == 0 or redis.call('EXISTS', parentKey) == 0 then return end
  if parent.fpof then
    local failure = 'child ' .. childKey .. ' failed'
    redis.call('ZADD', parentKey .. ':unsuccessful', now, childKey)
    if redis.call('ZREM', queueKey .. ':waiting-children', id) == 1 then
      redis.call('HSET', parentKey, 'defa', failure)
      releaseParent(queueKey, parentKey, id, now)
    elseif redis.call('ZREM', queueKey .. ':delayed', id) == 1 then
      redis.call('HSET', parentKey, 'delay', '0', 'defa', failure)
      releaseParent(queueKey, parentKey, id, now)
    elseif not redis.call('ZSCORE', queueKey .. ':failed', id)
        and not redis.call('ZSCORE', queueKey .. ':completed', id) then
      redis.call('HSET', parentKey, 'defa', failure)
    end
  elseif parent.cpof then
    redis.call('HSET', parentKey .. ':failed', childKey, reason)
    releaseWaitingParent(queueKey, parentKey, id, now)
  else
    releaseIdleParent(queueKey, dependencies, parentKey, id, now)
    if parent.idof then redis.call('HSET', parentKey .. ':failed', childKey, reason) end
  end
end
