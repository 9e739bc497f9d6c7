-- delayMarker · tells idle workers when the first delayed job is due
-- marker   zset   <prefix>:<queue>:marker
-- delayed  zset   <prefix>:<queue>:delayed; when empty nothing is written
-- Spec     protocol 02 S8; 01 section 6
local function delayMarker(marker, delayed)
  local head = redis.call('ZRANGE', delayed, '0', '0', 'WITHSCORES')[2]
  if head then redis.call('ZADD', marker, head / 4096, '1') end
end
