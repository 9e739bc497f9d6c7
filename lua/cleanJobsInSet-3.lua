-- cleanJobsInSet-3 · remove old jobs of one state
-- KEYS[1] jobs    list or zset  <prefix>:<queue>:<state>
-- KEYS[2] events  stream        <prefix>:<queue>:events
-- KEYS[3] repeat  zset          <prefix>:<queue>:repeat; the current jobs of schedulers stay
-- ARGV[1] prefix  text          <prefix>:<queue>:
-- ARGV[2] cutoff  ms            jobs of that time or older go, and those without a time
-- ARGV[3] limit   integer       most jobs to look at, oldest first; 0: all
-- ARGV[4] state   text          wait, paused, active, delayed, prioritized; any other name is
--                               a sorted set scored by time
-- Reply   ids removed
-- Event   cleaned {count}, for none as well
-- Spec    protocol 04 2.3                       Frozen  manifest.toml
--@include deleteJob
--@include inChunks
--@include schedulerCurrent
local jobs, prefix, state = KEYS[1], ARGV[1], ARGV[4]
local cutoff, limit = tonumber(ARGV[2]), tonumber(ARGV[3])
if not (cutoff and limit and state) then
  return redis.error_reply('cleanJobsInSet: cutoff and limit must be numbers, and a state must be given')
end
local times = {
  wait = { 'finishedOn', 'processedOn', 'timestamp' },
  paused = { 'finishedOn', 'processedOn', 'timestamp' },
  active = { 'finishedOn', 'processedOn', 'timestamp' },
  delayed = { 'processedOn', 'timestamp', 'timestamp' },
  prioritized = { 'timestamp', 'timestamp', 'timestamp' },
}
local time = times[state]
local isList = state == 'wait' or state == 'paused' or state == 'active'

local ids
if isList then
  ids = redis.call('LRANGE', jobs, limit > 0 and -limit or 0, '-1')
elseif limit > 0 then
  ids = redis.call('ZRANGEBYSCORE', jobs, '0', time and '+inf' or cutoff, 'LIMIT', '0', limit)
else
  ids = redis.call('ZRANGEBYSCORE', jobs, '0', time and '+inf' or cutoff)
end

local gone, kept = {}, {}
for i = 1, #ids do
  local id = ids[i]
  local job, old
  if time then
    job = redis.call('HMGET', prefix .. id, 'parentKey', 'deid', 'rjk', unpack(time))
    local since = tonumber(job[4] or job[5] or job[6])
    old = (not since or since <= cutoff) and not schedulerCurrent(KEYS[3], id, job[3])
      and (state ~= 'active' or redis.call('EXISTS', prefix .. id .. ':lock') == 0)
  else
    -- Its score is its time.
    job, old = redis.call('HMGET', prefix .. id, 'parentKey', 'deid'), true
  end
  if old then
    deleteJob(prefix, id, job[1], job[2])
    gone[#gone + 1] = id
  else
    kept[#kept + 1] = id
  end
end

if not isList then
  inChunks('ZREM', jobs, gone)
elseif #gone > 0 then
  redis.call('LTRIM', jobs, '0', -1 - #ids)
  inChunks('RPUSH', jobs, kept)
end
redis.call('XADD', KEYS[2], '*', 'event', 'cleaned', 'count', #gone)
return gone
