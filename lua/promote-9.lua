-- promote-9 · run a delayed job now
-- KEYS[1] delayed      zset    <prefix>:<queue>:delayed
-- KEYS[2] wait         list    <prefix>:<queue>:wait
-- KEYS[3] paused       list    unused
-- KEYS[4] meta         hash    <prefix>:<queue>:meta
-- KEYS[5] prioritized  zset    <prefix>:<queue>:prioritized
-- KEYS[6] active       list    <prefix>:<queue>:active
-- KEYS[7] pc           string  <prefix>:<queue>:pc
-- KEYS[8] events       stream  <prefix>:<queue>:events
-- KEYS[9] marker       zset    <prefix>:<queue>:marker
-- ARGV[1] prefix       text    <prefix>:<queue>:
-- ARGV[2] id           text
-- Reply   0   in wait or prioritized
--        -3   not a delayed job; an id without a hash is dropped from delayed
-- Event   waiting {jobId, prev = delayed}       Writes  <prefix>:<queue>:<id>.delay
-- Spec    protocol 04 2.7                       Frozen  manifest.toml
--@include closed
--@include pushPrioritized
--@include pushWait
local delayed, wait, marker = KEYS[1], KEYS[2], KEYS[9]
local id = ARGV[2]
local job = ARGV[1] .. id
if redis.call('ZREM', delayed, id) == 0 then return -3 end
local priority = redis.call('HGET', job, 'priority')
-- Otherwise the delay written below would become a hash that holds nothing else.
if not priority and redis.call('EXISTS', job) == 0 then return -3 end

-- Clients before 5 left markers here that no job answers to.
local head = redis.call('LINDEX', wait, '0')
if head and head:sub(1, 2) == '0:' then redis.call('LPOP', wait) end

local isClosed = closed(KEYS[4], KEYS[6])
priority = tonumber(priority) or 0
if priority == 0 then
  pushWait('LPUSH', wait, marker, id, isClosed)
else
  pushPrioritized(KEYS[5], marker, KEYS[7], id, priority, isClosed)
end
redis.call('XADD', KEYS[8], '*', 'event', 'waiting', 'jobId', id, 'prev', 'delayed')
redis.call('HSET', job, 'delay', '0')
return 0
