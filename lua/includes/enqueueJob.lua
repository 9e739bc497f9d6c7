-- enqueueJob · stores a job and puts it where its delay, priority and lifo options say
-- prefix      text    <prefix>:<queue>:, of all keys
-- id, name    text
-- data        text    JSON
-- optsJson    text    JSON of opts
-- opts        table   job options
-- timestamp   ms      number or text
-- parentKey, parentJson, rjk   text or nil, as in storeJob
-- limit       MAXLEN of the event log
-- isClosed    true leaves the marker of what waits alone (see closed)
-- Events      added {jobId, name}, then delayed {jobId, delay = ms when due} or waiting {jobId}
-- Spec        protocol 02 S10
--@include storeJob
--@include pushWait
local function enqueueJob(
  prefix, id, name, data, optsJson, opts, timestamp, parentKey, parentJson, rjk, limit, isClosed)
  local events, marker = prefix .. 'events', prefix .. 'marker'
  local delay, priority = tonumber(opts.delay) or 0, tonumber(opts.priority) or 0
  storeJob(prefix .. id, id, name, data, optsJson, opts, timestamp, parentKey, parentJson, rjk, events)
  if delay ~= 0 then
--@include delayJob
    delayJob(prefix .. 'delayed', marker, events, id, tonumber(timestamp), delay, limit)
    return
  end
  if priority > 0 then
--@include pushPrioritized
    pushPrioritized(prefix .. 'prioritized', marker, prefix .. 'pc', id, priority, isClosed)
  else
    pushWait(opts.lifo and 'RPUSH' or 'LPUSH', prefix .. 'wait', marker, id, isClosed)
  end
  redis.call('XADD', events, 'MAXLEN', '~', limit, '*', 'event', 'waiting', 'jobId', id)
end
