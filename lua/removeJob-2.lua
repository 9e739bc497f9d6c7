-- removeJob-2 · remove one job, alone or with all below it
-- KEYS[1] job       hash  <prefix>:<queue>:<id>
-- KEYS[2] repeat    zset  <prefix>:<queue>:repeat
-- ARGV[1] id        text
-- ARGV[2] children  text  1: its children, too, in whatever queue they are
-- ARGV[3] prefix    text  <prefix>:<queue>:
-- Reply   1   done, or there was no such job
--         0   it, or a child not finished, is locked; nothing written
--        -8   current job of a scheduler; nothing written
-- Event   removed {jobId, prev} on the queue of each removed job, trimmed;
--         waiting {jobId, prev = waiting-children} for a parent that is released
-- Spec    protocol 04 2.5                       Frozen  manifest.toml
--@include dropDependency
--@include forgetJob
--@include schedulerCurrent
local job, id, prefix = KEYS[1], ARGV[1], ARGV[3]
local withChildren = ARGV[2] == '1'
if not prefix or job ~= prefix .. id then
  return redis.error_reply('removeJob: KEYS[1] must be the job ARGV[1] of the queue ARGV[3]')
end

local known = redis.call('HMGET', job, 'rjk', 'parentKey')
if schedulerCurrent(KEYS[2], id, known[1]) then return -8 end
if redis.call('EXISTS', job .. ':lock') == 1 then return 0 end
if withChildren then
  local function isLockedBelow(jobKey)
    for _, childKey in ipairs(redis.call('SMEMBERS', jobKey .. ':dependencies')) do
      if redis.call('EXISTS', childKey .. ':lock') == 1 or isLockedBelow(childKey) then return true end
    end
    return false
  end
  if isLockedBelow(job) then return 0 end
end

local parentKey = known[2]
if parentKey and redis.call('EXISTS', parentKey) == 1 then dropDependency(job, parentKey) end
if withChildren then
--@include removeChildren
  removeChildren(job, true, false, false)
end
forgetJob(prefix, id)
return 1
