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
-- Includes inside a branch below cost nothing where it is not taken; what several branches
-- share is named before them.
--@include pushPrioritized
--@include fetchNext
local wait, active, prioritized, events, stalled, limiter, delayed, _, meta, pc, finished, job, metrics, marker =
  unpack(KEYS)
local id, now, property, value, target, fetch, prefix, packed, packedFields = unpack(ARGV)
local call, type, isFailed, isFetching = redis.call, type, target ~= 'completed', fetch == '1'

-- 1. Refuse what could not be carried out to the end.
local opts, fields = cmsgpack.unpack(packed), nil
local keep, time = type(opts) == 'table' and opts.keepJobs, tonumber(now)
-- NaN and the infinities differ from themselves by something that is not 0.
if type(keep) ~= 'table' or type(opts.token) ~= 'string' or not (time and time - time == 0) then
  return redis.error_reply('moveToFinished: needs a timestamp and the options token and keepJobs')
end
local attempts, points = tonumber(opts.attempts), opts.maxMetricsSize ~= '' and tonumber(opts.maxMetricsSize)
if isFailed and not (attempts and target == 'failed') then
  return redis.error_reply('moveToFinished: a job is completed, or it is failed and needs the option attempts')
end
if opts.maxMetricsSize ~= '' and not (points and points % 1 == 0) then
  return redis.error_reply('moveToFinished: option maxMetricsSize must be a whole number or an empty text')
end
local age, count, ageLimit = keep.age and tonumber(keep.age), keep.count and tonumber(keep.count), keep.limit
if keep.age and not age or keep.count and not (count and count % 1 == 0)
    or ageLimit and (tonumber(ageLimit) or 0.5) % 1 ~= 0 then
  return redis.error_reply('moveToFinished: keepJobs takes numbers, whole ones for count and limit')
end
if packedFields and packedFields ~= '' then
--@include fieldList
  fields = fieldList(packedFields)
end
if isFetching then
--@include checkTake
end

-- 2. May this caller end this job now?
local set = call('HMGET', job, 'name', 'atm', 'defa', 'deid', 'parentKey', 'parent')
if not set[1] and call('EXISTS', job) == 0 then return -1 end
if not isFailed then
  local dependencies = job .. ':dependencies'
  if call('EXISTS', dependencies, job .. ':unsuccessful') > 0 then
    return call('EXISTS', dependencies) == 1 and -4 or -9
  end
end
local dedupId, parentKey, parent = set[4], set[5], nil
if isFailed and set[6] then
--@include parentPolicy
  parent = parentPolicy(set[6])
end
local lock, token = job .. ':lock', opts.token
--@include leaveActive
if left ~= 0 then return left end

-- 3. The job itself.
local made = (tonumber(set[2]) or 0) + 1
if count ~= 0 then
  if fields then call('HSET', job, unpack(fields)) end
  call('HSET', job, property, value, 'finishedOn', now, 'atm', made == 1 and '1' or made)
  -- A deferred failure belongs to the run that is over.
  if set[3] then call('HDEL', job, 'defa') end
  call('ZADD', finished, now, id)
end

-- 4. Who waited for it: the next job of its deduplication id, its parent. Then what was kept long enough.
--@include queueSettings
local limit = queue[5]
if dedupId or parentKey or parent or age or count and count >= 0 then
--@include parentPlace
--@include closed
--@include pushWait
--@include delayMarker
  if dedupId then
--@include finishDeduplication
    finishDeduplication(prefix, id, dedupId, now, limit)
  end
  if parent or parentKey and not isFailed then
--@include releaseParent
    if isFailed then
--@include childFailed
      childFailed(parent, job, value, now)
    else
--@include childCompleted
      childCompleted(parentKey, job, value, now)
    end
  end
  if age or count and count >= 0 then
--@include dropDependency
--@include removeJobKeys
    if count == 0 then
      if parentKey then dropDependency(job, parentKey) end
      removeJobKeys(job)
    else
--@include keepFinished
      keepFinished(prefix, finished, now, age, ageLimit, count)
    end
  end
end

-- 5. Tell it. The log is trimmed with this event; a limit of 0 would take the event itself.
call('XADD', events, 'MAXLEN', '~', limit == '0' and '1' or limit, '*',
  'event', target, 'jobId', id, property, value, 'prev', 'active')
if isFailed and made >= attempts then
  call('XADD', events, '*', 'event', 'retries-exhausted', 'jobId', id, 'attemptsMade', made)
end
if points then
--@include collectMetrics
  collectMetrics(metrics, now, points)
end

-- 6. The next job.
if isFetching then
  local taken = fetchNext(
    prefix, now, opts, queue, true, wait, active, prioritized, events, limiter, delayed, pc, marker)
  if taken and not taken.err then return taken end
end
if call('EXISTS', wait, active, prioritized) == 0 then
  call('XADD', events, '*', 'event', 'drained')
end
return 0
