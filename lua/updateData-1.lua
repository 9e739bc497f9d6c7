-- updateData-1 · new data for a job, in whatever state it is
-- KEYS[1] job   hash  <prefix>:<queue>:<id>
-- ARGV[1] data  text  JSON, stored untouched
-- Reply   0 stored   -1 job hash absent
-- Spec    protocol 03 3.9                      Frozen  manifest.toml
local call, job = redis.call, KEYS[1]
if call('EXISTS', job) == 0 then return -1 end
call('HSET', job, 'data', ARGV[1])
return 0
