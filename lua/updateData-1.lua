-- updateData-1 · new data for a job, in whatever state it is
-- KEYS[1] job   hash  <prefix>:<queue>:<id>
-- ARGV[1] data  text  JSON, stored untouched
-- Reply   0 stored   -1 job hash absent
-- Spec    protocol 03 3.9                      Frozen  manifest.toml
if redis.call('EXISTS', KEYS[1]) == 0 then return -1 end
redis.call('HSET', KEYS[1], 'data', ARGV[1])
return 0
