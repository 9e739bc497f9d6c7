-- retryJob-11 · a failed attempt goes back to wait at once
-- KEYS[1]  active       list    <prefix>:<queue>:active
-- KEYS[2]  wait         list    :wait
-- KEYS[3]  paused       list    :paused; unused
-- KEYS[4]  job          hash    :<id>
-- KEYS[5]  meta         hash    :meta
-- KEYS[6]  events       stream  :events
-- KEYS[7]  delayed      zset    :delayed
-- KEYS[8]  prioritized  zset    :prioritized
-- KEYS[9]  pc           string  :pc
-- KEYS[10] marker       zset    :marker
-- KEYS[11] stalled      set     :stalled
-- ARGV[1]  prefix  text     <prefix>:<queue>:
-- ARGV[2]  now     ms
-- ARGV[3]  push    text     LPUSH: behind all others. RPUSH: next to run
-- ARGV[4]  id
-- ARGV[5]  token   text
-- ARGV[6]  fields  msgpack  array name, value .. for the job; optional
-- Reply    0 done   -1 job hash absent   -2 no lock   -3 not active   -6 another token holds the lock
-- Event    waiting {jobId, prev = delayed}, also when refused; waiting {jobId, prev = active}, trimmed
-- Spec     protocol 03 3.3                      Frozen  manifest.toml
--@include promoteDelayed
--@include pushWait
--@include queueState
local active, wait, _, job, meta, events, delayed, prioritized, pc, marker, stalled = unpack(KEYS)
local call, prefix, now, push, id, token = redis.call, ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4], ARGV[5]
-- NaN and the infinities differ from themselves by something that is not 0.
if not (now and now - now == 0) or push ~= 'LPUSH' and push ~= 'RPUSH' then
  return redis.error_reply('retryJob: needs a timestamp and LPUSH or RPUSH')
end
local fields = {}
if ARGV[6] and ARGV[6] ~= '' then
--@include fieldList
  fields = fieldList(ARGV[6])
end

local set = call('HMGET', job, 'name', 'priority', 'atm')
if not set[1] and call('EXISTS', job) == 0 then return -1 end
local lock = job .. ':lock'
--@include leaveActive
-- One look at the queue serves both pushes: where the slot just freed opens it, this job sets the marker.
local limit, isClosed = queueState(meta, active)
promoteDelayed(prefix, now, isClosed, delayed, wait, prioritized, pc, marker, events)
if left ~= 0 then return left end

local count = #fields
fields[count + 1], fields[count + 2] = 'atm', (tonumber(set[3]) or 0) + 1
call('HSET', job, unpack(fields))
local priority = tonumber(set[2]) or 0
if priority == 0 then
  pushWait(push, wait, marker, id, isClosed)
else
  pushPrioritized(prioritized, marker, pc, id, priority, isClosed)
end
call('XADD', events, 'MAXLEN', '~', limit, '*', 'event', 'waiting', 'jobId', id, 'prev', 'active')
return 0
