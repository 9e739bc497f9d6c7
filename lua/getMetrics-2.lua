-- getMetrics-2 · jobs finished, as a total and minute by minute
-- KEYS[1] metrics  hash     <prefix>:<queue>:metrics:completed or metrics:failed
-- KEYS[2] data     list     KEYS[1] and :data
-- ARGV[1] first    integer  index of a point; 0 is the newest minute
-- ARGV[2] last     integer  -1 is the oldest
-- Reply   [[count, prevTS, prevCount], [points], number of all points]; texts or nil
-- Spec    protocol 04 3.6                       Frozen  manifest.toml
return {
  redis.call('HMGET', KEYS[1], 'count', 'prevTS', 'prevCount'),
  redis.call('LRANGE', KEYS[2], ARGV[1], ARGV[2]),
  redis.call('LLEN', KEYS[2]),
}
