-- isMaxed-2 · is the queue at its concurrency limit
-- KEYS[1] meta    hash  <prefix>:<queue>:meta
-- KEYS[2] active  list  <prefix>:<queue>:active
-- Reply   1 yes   nil no, or no limit; a pause does not count
-- Spec    protocol 03 3.10                     Frozen  manifest.toml
local limit = redis.call('HGET', KEYS[1], 'concurrency')
return limit and redis.call('LLEN', KEYS[2]) >= tonumber(limit)
