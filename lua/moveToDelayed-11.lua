-- moveToDelayed-11 · an active job waits for a while; the next one may be taken
-- KEYS[1]  marker       zset    <prefix>:<queue>:marker
-- KEYS[2]  active       list    :active
-- KEYS[3]  prioritized  zset    :prioritized
-- KEYS[4]  delayed      zset    :delayed
-- KEYS[5]  job          hash    :<id>
-- KEYS[6]  events       stream  :events
-- KEYS[7]  meta         hash    :meta
-- KEYS[8]  stalled      set     :stalled
-- KEYS[9]  wait         list    :wait
-- KEYS[10] limiter      string  :limiter
-- KEYS[11] pc           string  :pc
-- ARGV[1]  prefix  text     <prefix>:<queue>:
-- ARGV[2]  now     ms
-- ARGV[3]  id
-- ARGV[4]  token   text
-- ARGV[5]  delay   ms       stored as given; 0 and below mean due at once
-- ARGV[6]  skip    text     0: this counts as an attempt
-- ARGV[7]  fields  msgpack  array name, value .. for the job; optional
-- ARGV[8]  fetch   text     1: take the next job as well
-- ARGV[9]  opts    msgpack  options of the fetch: token, lockDuration, limiter, name
-- Reply    0 done, or {{field, value, ..}, id, 0, 0}, the next job
--         -1 job hash absent   -2 no lock   -3 not active   -6 another token holds the lock
-- Event    delayed {jobId, delay = ms when due}, trimmed; those of the fetch
-- Spec     protocol 03 3.4                      Frozen  manifest.toml
--@include delayedScore
local marker, active, prioritized, delayed, job, events, meta, stalled, wait, limiter, pc = unpack(KEYS)
local prefix, now, id, token, delay = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4], tonumber(ARGV[5])
local call, fields, opts = redis.call, {}, nil
-- NaN and the infinities differ from themselves by something that is not 0.
if not (now and delay and now - now == 0 and delay - delay == 0) then
  return redis.error_reply('moveToDelayed: needs a timestamp and a delay')
end
-- An include inside a branch costs nothing where it is not taken.
if ARGV[7] and ARGV[7] ~= '' then
--@include fieldList
  fields = fieldList(ARGV[7])
end
if ARGV[8] == '1' then
  opts = cmsgpack.unpack(ARGV[9])
  if type(opts) ~= 'table' then return redis.error_reply('moveToDelayed: a fetch needs a map of options') end
--@include checkTake
end

local set = call('HMGET', job, 'name', 'atm')
if not set[1] and call('EXISTS', job) == 0 then return -1 end
local lock = job .. ':lock'
--@include leaveActive
if left ~= 0 then return left end

local count = #fields
fields[count + 1], fields[count + 2] = 'delay', ARGV[5]
if ARGV[6] == '0' then fields[count + 3], fields[count + 4] = 'atm', (tonumber(set[2]) or 0) + 1 end
call('HSET', job, unpack(fields))
local score, due = delayedScore(delayed, now, delay)
call('ZADD', delayed, score, id)
--@include queueSettings
local limit = queue[5]
call('XADD', events, 'MAXLEN', '~', limit, '*', 'event', 'delayed', 'jobId', id, 'delay', due)

if opts then
--@include fetchNext
  local taken = fetchNext(
    prefix, ARGV[2], opts, queue, true, wait, active, prioritized, events, limiter, delayed, pc, marker)
  -- Anything but a job is dropped: the caller's next take tells it again.
  if taken and taken[2] ~= 0 and not taken.err then return taken end
end
--@include delayMarker
delayMarker(marker, delayed)
return 0
