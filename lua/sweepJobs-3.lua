-- sweepJobs-3 · remove jobs of one state, a part at a time. Ours: no other client calls it
-- KEYS[1] jobs    list or zset  <prefix>:<queue>:<state>
-- KEYS[2] events  stream        <prefix>:<queue>:events
-- KEYS[3] repeat  zset          <prefix>:<queue>:repeat; the current jobs of schedulers stay
-- ARGV[1] prefix  text          <prefix>:<queue>:
-- ARGV[2] state   text          wait, paused, active (without a lock), delayed or prioritized
-- ARGV[3] cutoff  ms            jobs of that time or older go, and those without a time; inf: all
-- ARGV[4] first   integer       where to begin: how many the calls before have left there
-- ARGV[5] count   integer       most jobs to look at
-- ARGV[6] limit   integer       0: begin at the newest. Else: begin at the oldest, and remove so many at most
-- ARGV[7] tell    text          1: announce how many went
-- Reply   [first of the next call, ids removed]; first is -1 at the end or at the limit
-- Event   cleaned {count}, if asked for, for none as well
-- Why     drop what waits, or clean, without holding up the server. Workers take from the old end, so
--         beginning at the new end misses nothing
-- Spec    protocol 04 2.2 and 2.3                Frozen  manifest.toml
--@include inChunks
--@include removeOld
local jobs, prefix, state = KEYS[1], ARGV[1], ARGV[2]
local cutoff, first, count, limit = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local isList = state == 'wait' or state == 'paused' or state == 'active'
if not (cutoff and first and count and limit and count > 0 and (isList or state == 'delayed' or state == 'prioritized')) then
  return redis.error_reply('sweepJobs: cutoff, first, count and limit must be numbers, and the state one of five')
end
local fromOldest = limit > 0

local ids
if not isList then
  ids = redis.call(fromOldest and 'ZRANGE' or 'ZREVRANGE', jobs, first, first + count - 1)
elseif fromOldest then
  local window = redis.call('LRANGE', jobs, -first - count, -first - 1)
  ids = {}
  for i = #window, 1, -1 do ids[#ids + 1] = window[i] end
else
  ids = redis.call('LRANGE', jobs, first, first + count - 1)
end

local gone, places, _, looked = removeOld(prefix, KEYS[3], state, ids, cutoff, limit)
if not isList then
  inChunks('ZREM', jobs, gone)
elseif #gone > 0 then
  -- By place, for a search by value would walk the list for each of them.
  for i = 1, #places do
    redis.call('LSET', jobs, fromOldest and -first - places[i] or first + places[i] - 1, '')
  end
  redis.call('LREM', jobs, fromOldest and -#gone or #gone, '')
end
if ARGV[7] == '1' then redis.call('XADD', KEYS[2], '*', 'event', 'cleaned', 'count', #gone) end
if looked < count or (fromOldest and #gone == limit) then return { -1, gone } end
return { first + looked - #gone, gone }
