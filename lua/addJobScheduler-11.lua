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
local schedulers, delayed, wait, paused, meta, prioritized, _, counter = unpack(KEYS)
local slot, packed, schedulerId, data, template, packedOpts, timestamp, prefix = unpack(ARGV)
local call, wanted, opts = redis.call, cmsgpack.unpack(packed), cmsgpack.unpack(packedOpts)
local templateJson = cjson.encode(cmsgpack.unpack(template))
local now, every = tonumber(timestamp), tonumber(wanted.every)
local offset = tonumber(wanted.offset or opts['repeat'] and opts['repeat'].offset or 0)

--@include checkScheduled
--@include maxEvents
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
-- As a number: ids hold a slot as Lua prints it, a score can have more digits.
local previous = tonumber(call('ZSCORE', schedulers, schedulerId))
local record = previous and call('HMGET', recordKey, 'every', 'ic', 'offset')
  or { nil, call('HGET', recordKey, 'ic') }
local isChanged = previous and every ~= tonumber(record[1])

local newOffset = offset
if every then
  slot, newOffset = nextSlot(not isChanged and previous, every, now, offset, wanted.startDate)
end
local planned, delay, id, optsJson
local function plan()
  planned, delay, id = slot, math.max(0, slot - now), jobOf .. slot
  opts.delay, opts.jobId = delay, id
  optsJson = cjson.encode(opts)
end
-- Before the first write, for not everything can become JSON; most often the slot stays.
plan()
local limit = maxEvents(meta)

-- A worker may run the job of that slot while the one after it is planned: to add it again would break its run.
if previous and not every and call('EXISTS', prefix .. jobOf .. slot .. ':lock') == 1 then return -10 end

-- The job already planned makes room, unless a worker has it.
local isReplaced = false
if previous then
--@include deleteJob
  local function replacePlanned()
    local old = jobOf .. previous
    local jobKey = prefix .. old
    if call('EXISTS', jobKey) == 0 then return false end
    if call('ZREM', delayed, old) == 0 and call('ZREM', prioritized, old) == 0 then
      local list = call('HEXISTS', meta, 'paused') == 1 and paused or wait
      if call('LREM', list, 1, old) == 0 then return false end
    end
    local relations = call('HMGET', jobKey, 'parentKey', 'deid')
    deleteJob(prefix, old, relations[1], relations[2])
    return true
  end
  isReplaced = replacePlanned()
end
if isReplaced and every and not isChanged then slot = previous end

local plannedKey = prefix .. jobOf
if every then
  local tries = 0
  while call('EXISTS', plannedKey .. slot) == 1 do
    if tries == 32 then return -11 end
    slot, tries = slot + every, tries + 1
  end
elseif not isReplaced and call('EXISTS', plannedKey .. slot) == 1 then
  return -10
end

field('offset', not isReplaced and newOffset or wanted.offset or record[3])
field('ic', record[2] or '1')
field('opts', templateJson ~= '{}' and templateJson)
field('data', data ~= '{}' and data)
call('ZADD', schedulers, slot, schedulerId)
call('DEL', recordKey)
call('HSET', recordKey, unpack(fields))

if slot ~= planned then plan() end
call('INCR', counter)
enqueueJob(prefix, id, wanted.name, data, optsJson, opts, timestamp, nil, nil, schedulerId, limit)
return { id, delay }
