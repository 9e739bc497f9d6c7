-- takeJobs-9 · takes several jobs at once, as so many calls of moveToActive would. Ours: no other client calls it
-- KEYS[1]  wait         list    <prefix>:<queue>:wait
-- KEYS[2]  active       list    :active
-- KEYS[3]  prioritized  zset    :prioritized
-- KEYS[4]  events       stream  :events
-- KEYS[5]  limiter      string  :limiter, starts in the current window
-- KEYS[6]  delayed      zset    :delayed; 1000 at most are promoted
-- KEYS[7]  meta         hash    :meta; paused, concurrency, max, duration
-- KEYS[8]  pc           string  :pc
-- KEYS[9]  marker       zset    :marker
-- ARGV[1]  prefix  text     <prefix>:<queue>:, job keys are made with it
-- ARGV[2]  now     ms
-- ARGV[3]  opts    msgpack  lockDuration, limiter {max, duration}, name
-- ARGV[4]  token   text     of the first job taken; one more for each further one that is wanted, 100 at most
-- Reply    [[id, {field, value, ..}, ..], ttl, due]   the jobs, locked, and why there are not more:
--          ttl > 0 ms of a rate limit; 0 none is ready (due: when the first delayed one is); -1 enough
-- Event    waiting {jobId, prev = delayed}; active {jobId, prev = waiting} of each
-- Why      a worker with free slots fills them in one call
-- Spec     protocol 03 3.1                      Frozen  manifest.toml
--@include takeUpTo
local now, opts, tokens = ARGV[2], cmsgpack.unpack(ARGV[3]), { unpack(ARGV, 4, 104) }
-- NaN and the infinities differ from themselves by something that is not 0.
local time = tonumber(now)
if type(opts) ~= 'table' or not (time and time - time == 0) or #tokens == 0 or #tokens > 100 then
  return redis.error_reply('takeJobs: needs a timestamp, a map of options and 1 to 100 tokens')
end
opts.token = tokens[1]
--@include checkTake
local set = redis.call('HMGET', KEYS[7], 'paused', 'concurrency', 'max', 'duration')
local jobs, ttl, due, _, fault = takeUpTo(
  ARGV[1], now, opts, tokens, set, KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[8], KEYS[9])
return fault or { jobs, ttl, due }
