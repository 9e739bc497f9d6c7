-- updateJobScheduler-12 · makes the next job of a scheduler when its current one starts
-- KEYS[1]  repeat       zset    <prefix>:<queue>:repeat; <repeat>:<id> is the record
-- KEYS[2]  delayed      zset    <prefix>:<queue>:delayed
-- KEYS[3]  wait         list    <prefix>:<queue>:wait
-- KEYS[4]  paused       list    unused
-- KEYS[5]  meta         hash    <prefix>:<queue>:meta
-- KEYS[6]  prioritized  zset    <prefix>:<queue>:prioritized
-- KEYS[7]  marker       zset    <prefix>:<queue>:marker
-- KEYS[8]  id           string  <prefix>:<queue>:id, counter
-- KEYS[9]  events       stream  <prefix>:<queue>:events
-- KEYS[10] pc           string  <prefix>:<queue>:pc, counter
-- KEYS[11] producer     hash    unused
-- KEYS[12] active       list    <prefix>:<queue>:active
-- ARGV[1]  slot         text    next slot in ms for a pattern; "" with every
-- ARGV[2]  id           text    of the scheduler
-- ARGV[3]  data         text    unused: the record's counts
-- ARGV[4]  opts         msgpack map of the next job's options; delay and jobId are set here
-- ARGV[5]  now          ms
-- ARGV[6]  prefix       text    <prefix>:<queue>:
-- ARGV[7]  producer     text    id of the job that started
-- Reply    job id
--          nil          no such scheduler; not its current job (a retry); next job exists
-- Events   added {jobId, name}, then delayed {jobId, delay = ms when due} or waiting {jobId};
--          duplicated {jobId} if the next job exists
-- Spec     protocol 02 section 4.2                    Frozen  manifest.toml
local schedulers, meta, counter, events = KEYS[1], KEYS[5], KEYS[8], KEYS[9]
local slot, schedulerId, opts = ARGV[1], ARGV[2], cmsgpack.unpack(ARGV[4])
local timestamp, prefix, producer = ARGV[5], ARGV[6], ARGV[7]
local now = tonumber(timestamp)
local asked = opts['repeat'] or {}

--@include checkScheduled
--@include maxEvents
--@include nextSlot
--@include enqueueJob

local previous = redis.call('ZSCORE', schedulers, schedulerId)
local jobOf = 'repeat:' .. schedulerId .. ':'
if not previous or producer ~= jobOf .. previous then return end

local recordKey = schedulers .. ':' .. schedulerId
local record = redis.call('HMGET', recordKey, 'every', 'offset', 'name', 'data')
local every = tonumber(record[1] or asked.every)
local offset = tonumber(record[2] or asked.offset or 0)
checkScheduled(opts, now, every, offset, slot)
if every then slot = nextSlot(previous, every, now, offset) end

local id = jobOf .. slot
if redis.call('EXISTS', prefix .. id) == 1 then
  redis.call('XADD', events, 'MAXLEN', '~', maxEvents(meta), '*', 'event', 'duplicated', 'jobId', id)
  return
end
local name = record[3]
if not name then error('nothing scheduled, nothing written: ' .. recordKey .. ' has no name', 0) end
opts.delay, opts.jobId = math.max(0, slot - now), id
local optsJson = cjson.encode(opts)

redis.call('ZADD', schedulers, slot, schedulerId)
redis.call('HINCRBY', recordKey, 'ic', 1)
redis.call('INCR', counter)
local data, limit = record[4] or '{}', maxEvents(meta)
enqueueJob(prefix, id, name, data, optsJson, opts, timestamp, nil, nil, schedulerId, limit)
return id
