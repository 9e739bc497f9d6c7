-- moveToFinished-14 · ends an active job as completed or failed and may take the next one
-- KEYS[1]  wait         list    <prefix>:<queue>:wait
-- KEYS[2]  active       list    :active
-- KEYS[3]  prioritized  zset    :prioritized
-- KEYS[4]  events       stream  :events
-- KEYS[5]  stalled      set     :stalled
-- KEYS[6]  limiter      string  :limiter
-- KEYS[7]  delayed      zset    :delayed
-- KEYS[8]  paused       list    :paused; unused
-- KEYS[9]  meta         hash    :meta
-- KEYS[10] pc           string  :pc
-- KEYS[11] finished     zset    :completed or :failed, as ARGV[5] says
-- KEYS[12] job          hash    :<id>
-- KEYS[13] metrics      hash    :metrics:<completed|failed>, and its list :data
-- KEYS[14] marker       zset    :marker
-- ARGV[1]  id
-- ARGV[2]  now       ms       stored as given
-- ARGV[3]  property  text     returnvalue or failedReason
-- ARGV[4]  value     text     JSON of the result, or the plain reason
-- ARGV[5]  target    text     completed or failed
-- ARGV[6]  fetch     text     1: take the next job as well
-- ARGV[7]  prefix    text     <prefix>:<queue>:; job keys, de:, dn: and id are made with it
-- ARGV[8]  opts      msgpack  token, keepJobs {count, age in s, limit}, maxMetricsSize ('' for none);
--                             attempts, when failed; for the fetch lockDuration, limiter, name
-- ARGV[9]  fields    msgpack  array name, value .. for the job; optional
-- Reply    0, or what the fetch gave (see moveToActive)
--         -1  job hash absent        -2  no lock      -3  not active
--         -4  children pending       -6  another token holds the lock
--         -9  children have failed   Nothing is written when the reply is negative
-- Event    the next deduplicated job's; the parent's, on its queue; completed {jobId, returnvalue,
--          prev = active} or failed {jobId, failedReason, prev}; retries-exhausted {jobId, attemptsMade};
--          those of the fetch; drained
-- Writes   the parent's keys, also in another queue (see childFailed, releaseParent)
-- Spec     protocol 03 3.2                      Frozen  manifest.toml
--@include leaveActive
--@include fieldList
--@include takeFault
--@include parentPlace
--@include finishDeduplication
--@include childFailed
--@include dropDependency
--@include keepFinished
--@include removeJobKeys
--@include collectMetrics
--@include fetchNext
local wait, active, prioritized, events, delayed = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[7]
local meta, pc, finished, job, marker = KEYS[9], KEYS[10], KEYS[11], KEYS[12], KEYS[14]
local id, now, property, value = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local isCompleted, isFetching, prefix = ARGV[5] == 'completed', ARGV[6] == '1', ARGV[7]
local opts, fields = cmsgpack.unpack(ARGV[8]), fieldList(ARGV[9])

-- 1. Refuse what could not be carried out to the end.
local function isWhole(number) return type(number) == 'number' and number % 1 == 0 end
local keep = type(opts) == 'table' and opts.keepJobs
if type(keep) ~= 'table' or type(opts.token) ~= 'string' or not tonumber(now) then
  return redis.error_reply('ERR moveToFinished needs a timestamp and the options token and keepJobs')
end
local metricsSize, attempts = tonumber(opts.maxMetricsSize), tonumber(opts.attempts)
if opts.maxMetricsSize ~= '' and not isWhole(metricsSize) then
  return redis.error_reply('ERR the option maxMetricsSize must be a whole number or an empty text')
end
if type(keep.age or 0) ~= 'number' or not isWhole(keep.count or 0) or not isWhole(keep.limit or 0) then
  return redis.error_reply('ERR keepJobs takes numbers, whole ones for count and limit')
end
if not isCompleted and not attempts then
  return redis.error_reply('ERR a failed job needs the option attempts')
end
if not fields then
  return redis.error_reply('ERR the field list must be an array of names and values')
end
local fault = isFetching and takeFault(opts)
if fault then return fault end

-- 2. May this caller end this job now?
local set = redis.call('HMGET', job, 'name', 'atm', 'defa', 'deid', 'parentKey', 'parent')
if not set[1] and redis.call('EXISTS', job) == 0 then return -1 end
if isCompleted then
  local dependencies = job .. ':dependencies'
  if redis.call('EXISTS', dependencies, job .. ':unsuccessful') > 0 then
    return redis.call('EXISTS', dependencies) == 1 and -4 or -9
  end
end
local isDeferred, dedupId, parentKey = set[3], set[4], set[5]
local parent = set[6] and cjson.decode(set[6])
local left = leaveActive(active, KEYS[5], job .. ':lock', id, opts.token)
if left ~= 0 then return left end

-- 3. What others waited for: the next job of its deduplication id, the parent.
local queue = redis.call('HMGET', meta, 'paused', 'concurrency', 'max', 'duration', 'opts.maxLenEvents')
local limit = queue[5]
if not limit then
  limit = '10000'
  redis.call('HSET', meta, 'opts.maxLenEvents', limit)
elseif limit == '0' then
  -- Trimmed with the event that is being added, that one would be lost to all.
  limit = '1'
end
if dedupId then finishDeduplication(prefix, id, dedupId, now, limit) end
if not isCompleted then
  if parent then childFailed(parent, job, value, now) end
elseif parentKey then
  local dependencies = parentKey .. ':dependencies'
  if redis.call('SREM', dependencies, job) == 1 and redis.call('EXISTS', parentKey) == 1 then
    redis.call('HSET', parentKey .. ':processed', job, value)
    if redis.call('EXISTS', dependencies) == 0 then
      local parentPrefix, parentId = parentPlace(job, parentKey)
      if redis.call('ZREM', parentPrefix .. 'waiting-children', parentId) == 1 then
        releaseParent(string.sub(parentPrefix, 1, -2), parentKey, parentId, now)
      end
    end
  end
end

-- 4. The job itself. The event log is trimmed with the event all finishes have.
local made = (set[2] or 0) + 1
if keep.count == 0 then
  if parentKey then dropDependency(job, parentKey) end
  removeJobKeys(job)
else
  local count = #fields
  fields[count + 1], fields[count + 2], fields[count + 3] = property, value, 'finishedOn'
  fields[count + 4], fields[count + 5], fields[count + 6] = now, 'atm', made
  redis.call('HSET', job, unpack(fields))
  redis.call('ZADD', finished, now, id)
  if isDeferred then redis.call('HDEL', job, 'defa') end
  keepFinished(prefix, finished, keep, now)
end
redis.call('XADD', events, 'MAXLEN', '~', limit, '*', 'event', ARGV[5], 'jobId', id, property, value, 'prev', 'active')
if not isCompleted and made >= attempts then
  redis.call('XADD', events, '*', 'event', 'retries-exhausted', 'jobId', id, 'attemptsMade', made)
end
if metricsSize then collectMetrics(KEYS[13], now, metricsSize) end

-- 5. The next job.
if isFetching then
  local taken = fetchNext(prefix, now, opts, queue, true, wait, active, prioritized, events, KEYS[6], delayed, pc, marker)
  if taken and not taken.err then return taken end
end
if redis.call('EXISTS', wait, active, prioritized) == 0 then
  redis.call('XADD', events, '*', 'event', 'drained')
end
return 0
