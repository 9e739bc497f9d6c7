-- releaseIdleParent · releases a waiting parent once no child is pending
-- queueKey, parentKey, parentId, now   as in releaseParent
-- dependencies   set   keys of the children not accounted for
-- Spec   protocol 02 S12, 03 S17 (if nothing pending)
--@include releaseWaitingParent
local function releaseIdleParent(queueKey, dependencies, parentKey, parentId, now)
  if redis.call('SCARD', dependencies) == 0 then
    releaseWaitingParent(queueKey, parentKey, parentId, now)
  end
end
