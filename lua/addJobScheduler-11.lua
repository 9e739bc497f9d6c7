-- addJobScheduler-11 · makes or changes a scheduler, and its next job
-- KEYS[1]  repeat       zset    <prefix>:<queue>:repeat; <repeat>:<id> is the record
-- KEYS[2]  delayed      zset    <prefix>:<queue>:delayed
-- KEYS[3]  wait         list    <prefix>:<queue>:wait
-- KEYS[4]  paused       list    <prefix>:<queue>:paused, filled by old clients only
-- KEYS[5]  meta         hash    <prefix>:<queue>:meta
-- KEYS[6]  prioritized  zset    <prefix>:<queue>:prioritized
-- KEYS[7]  marker       zset    <prefix>:<queue>:marker
-- KEYS[8]  id           string  <prefix>:<queue>:id, counter
-- KEYS[9]  events       stream  <prefix>:<queue>:events
-- KEYS[10] pc           string  <prefix>:<queue>:pc, counter
-- KEYS[11] active       list    <prefix>:<queue>:active
-- ARGV[1]  slot         text    next slot in ms for a pattern; "" with every
-- ARGV[2]  scheduler    msgpack map: name, startDate, endDate, tz, pattern, every, limit, offset
-- ARGV[3]  id           text    of the scheduler
-- ARGV[4]  data         text    JSON, template
-- ARGV[5]  template     msgpack map of job options
-- ARGV[6]  opts         msgpack map of the first job's options; delay and jobId are set here
-- ARGV[7]  now          ms
-- ARGV[8]  prefix       text    <prefix>:<queue>:
-- ARGV[9]  producer     text    unused
-- Reply    [job id, delay in ms]
--          -10          the pattern's next job exists, or is being run
--          -11          33 slots in a row are taken
-- Events   added {jobId, name}, then delayed {jobId, delay = ms when due} or waiting {jobId}
-- Spec     protocol 02 section 4.1                    Frozen  manifest.toml
local schedulers, delayed, wait, paused, meta = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local prioritized, counter = KEYS[6], KEYS[8]
local slot, schedulerId, data, timestamp, prefix = ARGV[1], ARGV[3], ARGV[4], ARGV[7], ARGV[8]
local wanted, opts = cmsgpack.unpack(ARGV[2]), cmsgpack.unpack(ARGV[6])
local templateJson = cjson.encode(cmsgpack.unpack(ARGV[5]))
local now, every = tonumber(timestamp), tonumber(wanted.every)
local offset = tonumber(wanted.offset or opts['repeat'] and opts['repeat'].offset or 0)

--@include checkScheduled
--@include queueState
--@include nextSlot
--@include enqueueJob

checkScheduled(opts, now, every, offset, slot)

local fields = {}
local function field(name, value)
  if not value then return end
  if type(value) ~= 'string' and type(value) ~= 'number' then
    error('nothing scheduled, nothing written: ' .. name .. ' is neither text nor a number', 0)
  end
  fields[#fields + 1] = name
  fields[#fields + 1] = value
end
local names = { 'name', 'tz', 'limit', 'pattern', 'startDate', 'endDate', 'every' }
for i = 1, #names do field(names[i], wanted[names[i]]) end
if not (wanted.name and prefix) or wanted.every and not every or wanted.startDate and not tonumber(wanted.startDate) then
  error('nothing scheduled, nothing written: no name or prefix, or every or startDate is not a number', 0)
end

local recordKey = schedulers .. ':' .. schedulerId
local jobOf = 'repeat:' .. schedulerId .. ':'
local limit, isClosed = queueState(meta, KEYS[11])
-- As a number: ids hold a slot as Lua prints it, a score can have more digits.
local previous = tonumber(redis.call('ZSCORE', schedulers, schedulerId))
local record = redis.call('HMGET', recordKey, 'every', 'ic', 'offset')
local isChanged = previous and every ~= tonumber(record[1])

local newOffset = offset
if every then
  slot, newOffset = nextSlot(not isChanged and previous, every, now, offset, wanted.startDate)
end

-- A worker may run the job of that slot while the one after it is planned: to add it again would break its run.
if previous and not every and redis.call('EXISTS', prefix .. jobOf .. slot .. ':lock') == 1 then return -10 end

-- The job already planned makes room, unless a worker has it.
local isReplaced = false
if previous then
--@include deleteJob
  local function replacePlanned()
    local id = jobOf .. previous
    local jobKey = prefix .. id
    if redis.call('EXISTS', jobKey) == 0 then return false end
    if redis.call('ZREM', delayed, id) == 0 and redis.call('ZREM', prioritized, id) == 0 then
      local list = redis.call('HEXISTS', meta, 'paused') == 1 and paused or wait
      if redis.call('LREM', list, 1, id) == 0 then return false end
    end
    local relations = redis.call('HMGET', jobKey, 'parentKey', 'deid')
    deleteJob(prefix, id, relations[1], relations[2])
    return true
  end
  isReplaced = replacePlanned()
end
if isReplaced and every and not isChanged then slot = previous end

local plannedKey = prefix .. jobOf
if every then
  local tries = 0
  while redis.call('EXISTS', plannedKey .. slot) == 1 do
    if tries == 32 then return -11 end
    slot, tries = slot + every, tries + 1
  end
elseif not isReplaced and redis.call('EXISTS', plannedKey .. slot) == 1 then
  return -10
end

field('offset', not isReplaced and newOffset or wanted.offset or record[3])
field('ic', record[2] or '1')
field('opts', templateJson ~= '{}' and templateJson)
field('data', data ~= '{}' and data)
redis.call('ZADD', schedulers, slot, schedulerId)
redis.call('DEL', recordKey)
redis.call('HSET', recordKey, unpack(fields))

local id, delay = jobOf .. slot, math.max(0, slot - now)
opts.delay, opts.jobId = delay, id
redis.call('INCR', counter)
enqueueJob(prefix, id, wanted.name, data, cjson.encode(opts), opts, timestamp, nil, nil, schedulerId, limit, isClosed)
return { id, delay }
