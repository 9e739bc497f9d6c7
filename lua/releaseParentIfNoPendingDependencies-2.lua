-- releaseParentIfNoPendingDependencies-2 · ends the insert of a flow for one of its parents
-- KEYS[1] parent        hash  <prefix>:<queue>:<id>
-- KEYS[2] dependencies  set   <prefix>:<queue>:<id>:dependencies
-- ARGV[1] queue         text  qualified name of the parent's queue, no trailing colon
-- ARGV[2] id            text  of the parent
-- ARGV[3] now           ms
-- Reply   nil, whatever happened
-- Event   on the parent's queue: delayed {jobId, delay = ms when due}
--         or waiting {jobId, prev = waiting-children}
-- Spec    protocol 02 section 3                       Frozen  manifest.toml
local parent, dependencies = KEYS[1], KEYS[2]
local queue, id, now = ARGV[1], ARGV[2], ARGV[3]

--@include releaseIdleParent

-- NaN and the infinities differ from themselves by something that is not 0.
local time = tonumber(now)
if not (id and time and time - time == 0) then
  return redis.error_reply('releaseParentIfNoPendingDependencies: ARGV[2] must be an id and ARGV[3] a time')
end
-- A child that could not be attached is not among the dependencies, so they tell nothing.
if redis.call('HDEL', parent, 'flowAttachmentFailed') == 1 then return end
releaseIdleParent(queue, dependencies, parent, id, now)
