-- delayJob · puts a job into the delayed set, announces it and sets the marker
-- delayed, marker  zset    keys of the queue
-- events           stream  <prefix>:<queue>:events
-- id               text
-- timestamp        number  ms
-- delay            number  ms
-- limit            MAXLEN of the event log (see maxEvents)
-- Event            delayed {jobId, delay = ms when due}, trimmed
-- Spec             protocol 02 S9
--@include delayedScore
--@include delayMarker
local function delayJob(delayed, marker, events, id, timestamp, delay, limit)
  local score, due = delayedScore(delayed, timestamp, delay)
  redis.call('ZADD', delayed, score, id)
  redis.call('XADD', events, 'MAXLEN', '~', limit, '*', 'event', 'delayed', 'jobId', id, 'delay', due)
  delayMarker(marker, delayed)
end
