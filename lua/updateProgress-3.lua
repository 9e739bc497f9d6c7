-- updateProgress-3 · how far one job has come
-- KEYS[1] job       hash    <prefix>:<queue>:<id>
-- KEYS[2] events    stream  <prefix>:<queue>:events
-- KEYS[3] meta      hash    <prefix>:<queue>:meta; limit of the event log
-- ARGV[1] id        text    goes into the event
-- ARGV[2] progress  text    JSON, stored untouched
-- Reply   0 stored and announced   -1 job hash absent
-- Event   progress {jobId, data}, trimmed
-- Spec    protocol 03 3.9                      Frozen  manifest.toml
--@include maxEvents
local job, id, progress = KEYS[1], ARGV[1], ARGV[2]
if redis.call('EXISTS', job) == 0 then return -1 end
redis.call('HSET', job, 'progress', progress)
redis.call('XADD', KEYS[2], 'MAXLEN', '~', maxEvents(KEYS[3]), '*',
  'event', 'progress', 'jobId', id, 'data', progress)
return 0
