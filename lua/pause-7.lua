-- pause-7 · pause or resume the queue
-- KEYS[1] wait         list    <prefix>:<queue>:wait; to resume: paused
-- KEYS[2] paused       list    <prefix>:<queue>:paused, of clients before 6; to resume: wait
-- KEYS[3] meta         hash    <prefix>:<queue>:meta
-- KEYS[4] prioritized  zset    <prefix>:<queue>:prioritized
-- KEYS[5] events       stream  <prefix>:<queue>:events
-- KEYS[6] delayed      zset    <prefix>:<queue>:delayed
-- KEYS[7] marker       zset    <prefix>:<queue>:marker
-- ARGV[1] state        text    paused or resumed
-- ARGV[2] emit         text    0: no event; anything else, or absent: event
-- Reply   number of ids still in the old paused list: call again, silently, until 0
-- Event   paused {} or resumed {}               Writes  KEYS[3].paused
-- Spec    protocol 04 2.1                       Frozen  manifest.toml
--@include delayMarker
local meta, marker, state = KEYS[3], KEYS[7], ARGV[1]
local left = 0
if state == 'paused' then
  redis.call('HSET', meta, 'paused', '1')
  redis.call('DEL', marker)
elseif state == 'resumed' then
  local legacy, wait = KEYS[1], KEYS[2]
  redis.call('HDEL', meta, 'paused')
  -- Moved a part at a time, for a list of any length must not block the server.
  local ids = redis.call('LRANGE', legacy, '0', '6999')
  if #ids > 0 then
    if redis.call('EXISTS', wait) == 0 then
      redis.call('RENAME', legacy, wait)
    else
      redis.call('RPUSH', wait, unpack(ids))
      redis.call('LTRIM', legacy, #ids, '-1')
      left = redis.call('LLEN', legacy)
    end
  end
  -- Even at the concurrency limit: a wake-up too many does no harm, one too few does.
  if redis.call('EXISTS', wait, KEYS[4]) > 0 then
    redis.call('ZADD', marker, '0', '0')
  else
    delayMarker(marker, KEYS[6])
  end
else
  return redis.error_reply('pause: ARGV[1] must be paused or resumed')
end
if ARGV[2] ~= '0' then redis.call('XADD', KEYS[5], '*', 'event', state) end
return left
