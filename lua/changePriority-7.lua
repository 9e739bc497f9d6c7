-- changePriority-7 · give a job another priority, and its place if it waits
-- KEYS[1] wait         list    <prefix>:<queue>:wait
-- KEYS[2] paused       list    unused
-- KEYS[3] meta         hash    <prefix>:<queue>:meta
-- KEYS[4] prioritized  zset    <prefix>:<queue>:prioritized
-- KEYS[5] active       list    <prefix>:<queue>:active
-- KEYS[6] pc           string  <prefix>:<queue>:pc
-- KEYS[7] marker       zset    <prefix>:<queue>:marker
-- ARGV[1] priority     integer 0: none
-- ARGV[2] prefix       text    <prefix>:<queue>:
-- ARGV[3] id           text
-- ARGV[4] lifo         text    1: before all others of its priority
-- Reply   0   done
--        -1   job hash absent; nothing written
-- Event   none                                  Writes  <prefix>:<queue>:<id>.priority, in every state
-- Spec    protocol 04 2.9                       Frozen  manifest.toml
--@include closed
--@include pushPrioritized
--@include pushWait
local wait, prioritized, marker = KEYS[1], KEYS[4], KEYS[7]
local priority, id, lifo = tonumber(ARGV[1]), ARGV[3], ARGV[4] == '1'
local job = ARGV[2] .. id
if redis.call('EXISTS', job) == 0 then return -1 end
if not (priority and priority - priority == 0) then return redis.error_reply('changePriority: the priority must be a number') end
if redis.call('ZREM', prioritized, id) == 1 or redis.call('LREM', wait, '-1', id) == 1 then
  if priority == 0 then
    pushWait(lifo and 'RPUSH' or 'LPUSH', wait, marker, id, closed(KEYS[3], KEYS[5]))
  elseif lifo then
    redis.call('ZADD', prioritized, priority * 4294967296, id)
  else
    pushPrioritized(prioritized, marker, KEYS[6], id, priority, closed(KEYS[3], KEYS[5]))
  end
end
redis.call('HSET', job, 'priority', priority)
return 0
