-- releaseWaitingParent · releases a parent if it exists and waits for its children
-- queueKey, parentKey, parentId, now   as in releaseParent
-- Spec   protocol 03 S17 (if waiting)
--@include releaseParent
local function releaseWaitingParent(queueKey, parentKey, parentId, now)
  if redis.call('EXISTS', parentKey) == 1
      and redis.call('ZREM', queueKey .. ':waiting-children', parentId) == 1 then
    releaseParent(queueKey, parentKey, parentId, now)
  end
end
