-- changeDelay-4 · let a delayed job run at another time
-- KEYS[1] delayed  zset    <prefix>:<queue>:delayed
-- KEYS[2] meta     hash    <prefix>:<queue>:meta; limit of the event log
-- KEYS[3] marker   zset    <prefix>:<queue>:marker
-- KEYS[4] events   stream  <prefix>:<queue>:events
-- ARGV[1] delay    ms      from now on; 0 and below mean due at once
-- ARGV[2] now      ms
-- ARGV[3] id       text
-- ARGV[4] job      key     <prefix>:<queue>:<id>
-- Reply   0   done
--        -1   job hash absent
--        -3   not in delayed; nothing written
-- Event   delayed {jobId, delay = ms when due}, trimmed
-- Writes  job.delay; KEYS[3], though the queue be paused; the limit, if unset
-- Spec    protocol 04 2.8                       Frozen  manifest.toml
--@include delayMarker
--@include delayedScore
--@include maxEvents
local delayed, meta, marker, events = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local id, job = ARGV[3], ARGV[4]
local delay, now = tonumber(ARGV[1]), tonumber(ARGV[2])
if redis.call('EXISTS', job) == 0 then return -1 end
if not (delay and now) then return redis.error_reply('changeDelay: delay and now must be numbers') end
local score, due = delayedScore(delayed, now, delay)
-- XX makes no job delayed that is not; CH tells whether it moved, and mostly it does.
if redis.call('ZADD', delayed, 'XX', 'CH', score, id) == 0 and not redis.call('ZSCORE', delayed, id) then return -3 end
redis.call('HSET', job, 'delay', ARGV[1])
redis.call('XADD', events, 'MAXLEN', '~', maxEvents(meta), '*', 'event', 'delayed', 'jobId', id, 'delay', due)
delayMarker(marker, delayed)
return 0
