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
--@include inChunks
--@include removeOld
local jobs, prefix, state = KEYS[1], ARGV[1], ARGV[4]
local cutoff, limit = tonumber(ARGV[2]), tonumber(ARGV[3])
if not (cutoff and limit and state) then
  return redis.error_reply('cleanJobsInSet: cutoff and limit must be numbers, and a state must be given')
end
local isList = state == 'wait' or state == 'paused' or state == 'active'

local ids
if isList then
  ids = redis.call('LRANGE', jobs, limit > 0 and -limit or 0, '-1')
else
  -- The score of a finished job is its time.
  local highest = (state == 'delayed' or state == 'prioritized') and '+inf' or cutoff
  ids = redis.call('ZRANGEBYSCORE', jobs, '0', highest, 'LIMIT', '0', limit > 0 and limit or '-1')
end

local gone, _, kept = removeOld(prefix, KEYS[3], state, ids, cutoff)
if not isList then
  inChunks('ZREM', jobs, gone)
elseif #gone > 0 then
  redis.call('LTRIM', jobs, '0', -1 - #ids)
  inChunks('RPUSH', jobs, kept)
end
redis.call('XADD', KEYS[2], '*', 'event', 'cleaned', 'count', #gone)
return gone
