-- finishJobs-12 · completes several plain jobs at once and takes the next ones, as so many calls of moveToFinished
--   and moveToActive would. Ours: no other client calls it
-- KEYS[1]  wait         list    <prefix>:<queue>:wait
-- KEYS[2]  active       list    :active
-- KEYS[3]  prioritized  zset    :prioritized
-- KEYS[4]  events       stream  :events
-- KEYS[5]  stalled      set     :stalled
-- KEYS[6]  limiter      string  :limiter
-- KEYS[7]  delayed      zset    :delayed
-- KEYS[8]  meta         hash    :meta
-- KEYS[9]  pc           string  :pc
-- KEYS[10] completed    zset    :completed
-- KEYS[11] metrics      hash    :metrics:completed, and its list :data
-- KEYS[12] marker       zset    :marker
-- ARGV[1]  prefix  text     <prefix>:<queue>:, job keys are made with it
-- ARGV[2]  now     ms       stored as given
-- ARGV[3]  opts    msgpack  lockDuration, limiter, name; keepJobs {count, age in s, limit};
--                           maxMetricsSize ('' for none)
-- ARGV[4]  most    integer  how many jobs to take; no more than are completed
-- ARGV[5]  id      text     then the token of its lock, the JSON of its result, the next id, .. 100 jobs at most
-- Reply    [[code, ..], [id, {field, value, ..}, ..], ttl, due]   a code for each job, the rest as in takeJobs:
--           0 completed; a job that was taken is locked with the token of the first one completed, and so on
--          -1 job hash absent   -2 no lock   -3 not active   -6 another token holds the lock
--           1 not plain (has children, a parent, a deduplication id, a failure): left to moveToFinished
--          Nothing is written of a job whose code is not 0
-- Event    completed {jobId, returnvalue, prev = active} of each; those of the takes; drained
-- Why      what a finish asks of the queue is asked once for all of them
-- Spec     protocol 03 3.1, 3.2                 Frozen  manifest.toml
-- Includes inside a branch below cost nothing where it is not taken; what several branches
-- share is named before them.
--@include removeJobKeys
--@include pushPrioritized
--@include takeUpTo
local wait, active, prioritized, events = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local meta, finished, prefix, now, call = KEYS[8], KEYS[10], ARGV[1], ARGV[2], redis.call

-- 1. Refuse what could not be carried out to the end.
local opts, most, count = cmsgpack.unpack(ARGV[3]), tonumber(ARGV[4]), (#ARGV - 4) / 3
local keep, time = type(opts) == 'table' and opts.keepJobs, tonumber(now)
-- NaN and the infinities differ from themselves by something that is not 0.
if type(keep) ~= 'table' or not (time and time - time == 0) or not most
    or count % 1 > 0 or count < 1 or count > 100 then
  return redis.error_reply('finishJobs: needs a timestamp, the option keepJobs, a number to take and 1 to 100 jobs')
end
local points, age, stay, ageLimit =
  tonumber(opts.maxMetricsSize), tonumber(keep.age), tonumber(keep.count), tonumber(keep.limit)
if opts.maxMetricsSize ~= '' and not (points and points % 1 == 0) or keep.age and not age
    or keep.count and not (stay and stay % 1 == 0) or keep.limit and not (ageLimit and ageLimit % 1 == 0) then
  return redis.error_reply('finishJobs: maxMetricsSize and keepJobs take whole numbers, age any number')
end
opts.token = ARGV[6]
--@include checkTake

-- 2. The locks and the children of all of them.
local locks, families = {}, {}
for i = 1, count do
  local job = prefix .. ARGV[3 * i + 2]
  locks[i] = job .. ':lock'
  families[2 * i - 1], families[2 * i] = job .. ':dependencies', job .. ':unsuccessful'
end
local holders = call('MGET', unpack(locks))
local hasChildren = call('EXISTS', unpack(families)) > 0
local trims, set, limit = age or stay and stay > 0, nil, nil

-- 3. One after the other.
local codes, done, tokens, freed, scored = {}, {}, {}, {}, {}
for i = 1, count do
  local id, token, value = ARGV[3 * i + 2], ARGV[3 * i + 3], ARGV[3 * i + 4]
  local job, holder, code = prefix .. id, holders[i], 0
  local fields = redis.pcall('HMGET', job, 'name', 'atm', 'defa', 'deid', 'parentKey')
  if fields.err or fields[3] or fields[4] or fields[5]
      or hasChildren and call('EXISTS', families[2 * i - 1], families[2 * i]) > 0 then
    code = 1
  elseif not fields[1] and call('EXISTS', job) == 0 then
    code = -1
  elseif holder ~= token then
    code = holder and -6 or -2
  elseif call('LREM', active, '-1', id) == 0 then
    code = -3
  else
    if not set then
--@include queueSettings
      set = queue
      -- A limit of 0 would take the event itself.
      limit = set[5] == '0' and '1' or set[5]
    end
    local n = #done + 1
    done[n], freed[n] = id, locks[i]
    if n <= most then tokens[n] = token end
    if stay == 0 then
      removeJobKeys(job)
    else
      call('HSET', job, 'returnvalue', value, 'finishedOn', now, 'atm', (tonumber(fields[2]) or 0) + 1)
      if trims then
--@include keepFinished
        call('ZADD', finished, now, id)
        -- What is too old is so for all of them.
        keepFinished(prefix, finished, now, n == 1 and age, ageLimit, stay)
      else
        scored[2 * n - 1], scored[2 * n] = now, id
      end
    end
    call('XADD', events, 'MAXLEN', '~', limit, '*',
      'event', 'completed', 'jobId', id, 'returnvalue', value, 'prev', 'active')
  end
  codes[i] = code
end
if #done == 0 then return { codes, {}, -1, 0 } end

-- 4. What is written for all of them.
call('DEL', unpack(freed))
call('SREM', KEYS[5], unpack(done))
if scored[1] then call('ZADD', finished, unpack(scored)) end
if points then
--@include collectMetrics
  collectMetrics(KEYS[11], now, points)
  -- They share their minute with the first.
  if #done > 1 then call('HINCRBY', KEYS[11], 'count', #done - 1) end
end

-- 5. The next jobs.
local jobs, ttl, due, isNone, fault = {}, -1, 0, true, nil
if tokens[1] then
  jobs, ttl, due, isNone, fault = takeUpTo(
    prefix, now, opts, tokens, set, wait, active, prioritized, events, KEYS[6], KEYS[7], KEYS[9], KEYS[12])
end
if (isNone or fault) and not jobs[1] and call('EXISTS', wait, active, prioritized) == 0 then
  call('XADD', events, '*', 'event', 'drained')
end
return { codes, jobs, ttl, due }
