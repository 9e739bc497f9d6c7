-- moveToActive-11 · promotes what is due, then hands the next job to a worker
-- KEYS[1]  wait         list    <prefix>:<queue>:wait
-- KEYS[2]  active       list    :active
-- KEYS[3]  prioritized  zset    :prioritized
-- KEYS[4]  events       stream  :events
-- KEYS[5]  stalled      set     :stalled; unused
-- KEYS[6]  limiter      string  :limiter, starts in the current window
-- KEYS[7]  delayed      zset    :delayed
-- KEYS[8]  paused       list    :paused; unused
-- KEYS[9]  meta         hash    :meta; paused, concurrency, max, duration
-- KEYS[10] pc           string  :pc
-- KEYS[11] marker       zset    :marker
-- ARGV[1]  prefix  text     <prefix>:<queue>:, job keys are made with it
-- ARGV[2]  now     ms
-- ARGV[3]  opts    msgpack  token, lockDuration, limiter {max, duration}, name
-- Reply    {{field, value, ..}, id, 0, 0}  a job, locked
--          {0, 0, ttl, 0}        rate limited for ttl ms
--          {0, 0, 0, timestamp}  none ready, the first delayed one is due then
--          {0, 0, 0, 0}          none at all, paused, or at the concurrency limit
-- Event    waiting {jobId, prev = delayed}; active {jobId, prev = waiting}
-- Spec     protocol 03 3.1                      Frozen  manifest.toml
--@include fetchNext
local wait, active, prioritized, events, _, limiter, delayed, _, meta, pc, marker = unpack(KEYS)
local prefix, now, opts = ARGV[1], ARGV[2], cmsgpack.unpack(ARGV[3])
-- NaN and the infinities differ from themselves by something that is not 0.
local time = tonumber(now)
if type(opts) ~= 'table' or not (time and time - time == 0) then
  return redis.error_reply('moveToActive: needs a timestamp and a map of options')
end
--@include checkTake
local queue = redis.call('HMGET', meta, 'paused', 'concurrency', 'max', 'duration')
return fetchNext(
  prefix, now, opts, queue, false, wait, active, prioritized, events, limiter, delayed, pc, marker
) or {0, 0, 0, 0}
