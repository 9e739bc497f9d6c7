-- removeTree-2 · remove a job with all below it, a part at a time. Ours: no other client calls it
-- KEYS[1] job     hash     <prefix>:<queue>:<id>
-- KEYS[2] repeat  zset     <prefix>:<queue>:repeat
-- ARGV[1] id      text
-- ARGV[2] prefix  text     <prefix>:<queue>:
-- ARGV[3] effort  integer  about how many jobs to remove in this call
-- ARGV[4] begun   text     1: a part at a time, from the leaves up; else: all or nothing
-- Reply   1   done, or there was no such job
--         0   it, or a child not finished, is locked; nothing written, unless parts were removed before
--         2   more than the effort allows: call again, begun. Nothing written unless begun
--        -8   current job of a scheduler; nothing written
-- Event   removed {jobId, prev} on the queue of each removed job, trimmed;
--         waiting {jobId, prev = waiting-children} for a parent that is released
-- Why     until it goes itself a job stays where it is, so no worker takes a parent half removed
-- Spec    protocol 04 2.5                       Frozen  manifest.toml
--@include dropDependency
--@include forgetJob
--@include removeChildren
--@include schedulerCurrent
--@include splitKey
local job, id, prefix = KEYS[1], ARGV[1], ARGV[2]
local left = tonumber(ARGV[3])
if not (left and prefix and job == prefix .. id) then
  return redis.error_reply('removeTree: KEYS[1] must be the job ARGV[1] of the queue ARGV[2], ARGV[3] a number')
end
local known = redis.call('HMGET', job, 'rjk', 'parentKey')
if schedulerCurrent(KEYS[2], id, known[1]) then return -8 end
if redis.call('EXISTS', job .. ':lock') == 1 then return 0 end

local isLocked = false
local efforts = {}
-- A pending job may have to be looked for in the list of its queue, so a long list costs more.
local function effortOf(queue)
  if not efforts[queue] then efforts[queue] = 1 + math.floor(redis.call('LLEN', queue .. 'wait') / 2000) end
  return efforts[queue]
end

-- Some children of a job in one of its four families.
local function some(jobKey, family)
  local key = jobKey .. ':' .. family
  if family == 'unsuccessful' then return redis.call('ZRANGE', key, '0', left) end
  return redis.call(family == 'dependencies' and 'SRANDMEMBER' or 'HRANDFIELD', key, left + 1)
end
local families = { 'processed', 'failed', 'unsuccessful', 'dependencies' }
local function isLeaf(jobKey)
  return redis.call('EXISTS', jobKey .. ':processed', jobKey .. ':failed', jobKey .. ':unsuccessful',
    jobKey .. ':dependencies') == 0
end

-- Is all below within the effort? Sees to locks on the way, of children that have not finished.
local function fits(jobKey, isPending)
  if isLeaf(jobKey) then return true end
  for _, family in ipairs(families) do
    local pending = isPending and family == 'dependencies'
    for _, childKey in ipairs(some(jobKey, family)) do
      left = left - (family == 'dependencies' and effortOf((splitKey(childKey))) or 1)
      if left < 0 then return false end
      if pending and redis.call('EXISTS', childKey .. ':lock') == 1 then isLocked = true end
      if not fits(childKey, pending) then return false end
    end
  end
  return true
end

if fits(job, true) then
  if isLocked then return 0 end
  if known[2] and redis.call('EXISTS', known[2]) == 1 then dropDependency(job, known[2]) end
  removeChildren(job, true, false, false)
  forgetJob(prefix, id)
  return 1
end
if ARGV[4] ~= '1' then return 2 end

local removals = { processed = 'HDEL', failed = 'HDEL', unsuccessful = 'ZREM', dependencies = 'SREM' }
left = tonumber(ARGV[3])

-- Children that wait mostly stand together, at one end of the list: there they are found at once.
local function removeWaiting(jobKey, queue)
  local wait, dependencies = queue .. 'wait', jobKey .. ':dependencies'
  local limit = maxEvents(queue .. 'meta')
  for start = 0, -left, -left do
    local ids, gone = redis.call('LRANGE', wait, start, start < 0 and -1 or left - 1), 0
    for i = 1, #ids do
      local childKey = queue .. ids[i]
      if redis.call('SISMEMBER', dependencies, childKey) == 1 and isLeaf(childKey)
          and redis.call('EXISTS', childKey .. ':lock') == 0 then
        redis.call('SREM', dependencies, childKey)
        freeDedup(queue, ids[i], redis.call('HGET', childKey, 'deid'))
        redis.call('LSET', wait, start < 0 and i - 1 - #ids or i - 1, '')
        if removeJobKeys(childKey) > 0 then
          redis.call('XADD', queue .. 'events', 'MAXLEN', '~', limit, '*',
            'event', 'removed', 'jobId', ids[i], 'prev', 'wait')
        end
        gone = gone + 1
      end
    end
    if gone > 0 then
      redis.call('LREM', wait, start < 0 and -gone or gone, '')
      left = left - gone
      if left <= 0 then return end
    end
  end
end

local searched = {}
local function prune(jobKey)
  if isLeaf(jobKey) then return end
  for _, family in ipairs(families) do
    local isPending, key = family == 'dependencies', jobKey .. ':' .. family
    for _, childKey in ipairs(some(jobKey, family)) do
      local queue, childId = splitKey(childKey)
      if isPending and not searched[key .. queue] and effortOf(queue) > 1 then
        searched[key .. queue] = true
        removeWaiting(jobKey, queue)
        efforts[queue] = nil
      end
      if left <= 0 then return end
      if not isPending or redis.call('SISMEMBER', key, childKey) == 1 then
        isLocked = isPending and redis.call('EXISTS', childKey .. ':lock') == 1
        if not isLocked then prune(childKey) end
        if isLocked or left <= 0 then return end
        forgetJob(queue, childId)
        redis.call(removals[family], key, childKey)
        left = left - (isPending and effortOf(queue) or 1)
        if left <= 0 then return end
      end
    end
  end
end
prune(job)
return isLocked and 0 or 2
