-- saveStacktrace-1 · why an attempt failed
-- KEYS[1] job         hash  <prefix>:<queue>:<id>
-- ARGV[1] stacktrace  text  JSON array of texts
-- ARGV[2] reason      text
-- Reply   0 stored   -1 job hash absent
-- Spec    protocol 03 3.9                      Frozen  manifest.toml
local call, job = redis.call, KEYS[1]
if call('EXISTS', job) == 0 then return -1 end
call('HSET', job, 'stacktrace', ARGV[1], 'failedReason', ARGV[2])
return 0
