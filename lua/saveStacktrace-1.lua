-- saveStacktrace-1 · why an attempt failed
-- KEYS[1] job         hash  <prefix>:<queue>:<id>
-- ARGV[1] stacktrace  text  JSON array of texts
-- ARGV[2] reason      text
-- Reply   0 stored   -1 job hash absent
-- Spec    protocol 03 3.9                      Frozen  manifest.toml
if redis.call('EXISTS', KEYS[1]) == 0 then return -1 end
redis.call('HSET', KEYS[1], 'stacktrace', ARGV[1], 'failedReason', ARGV[2])
return 0
