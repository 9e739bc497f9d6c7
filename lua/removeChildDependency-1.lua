-- removeChildDependency-1 · detaches a child from its parent
-- KEYS[1] prefix  text  <prefix>:<queue>:, not a key that exists
-- ARGV[1] child   key   <prefix>:<queue>:<id>, in any queue
-- ARGV[2] parent  key   likewise
-- Reply   0 detached   1 the child is not pending there   -1 child absent   -5 parent absent
-- Event   the parent's, when this was its last child (see dropDependency)
-- Spec    protocol 03 3.12                     Frozen  manifest.toml
--@include dropDependency
local child, parent = ARGV[1], ARGV[2]
if redis.call('EXISTS', child) == 0 then return -1 end
if redis.call('EXISTS', parent) == 0 then return -5 end
if not dropDependency(child, parent) then return 1 end
redis.call('HDEL', child, 'parentKey', 'parent')
return 0
