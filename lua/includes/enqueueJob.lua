-- enqueueJob · stores a job and puts it where its delay, priority and lifo options say
-- prefix      text    <prefix>:<queue>:, of all keys
-- id, name    text
-- data        text    JSON
-- optsJson    text    JSON of opts
-- opts        table   job options
-- timestamp   ms      number or text
-- parentKey, parentJson, rjk   text or nil, as in storeJob
-- limit       MAXLEN of the event log
-- Events      added {jobId, name}, then delayed {jobId, delay = ms when due} or waiting {jobId}
-- Spec        protocol 02 S10
local function enqueueJob(
  prefix, id, name, data, optsJson, opts, timestamp, parentKey, parentJson, rjk, limit)
  local call, jobKey, events, marker = redis.call, prefix .. id, prefix .. 'events', prefix .. 'marker'
  local delay, priority = tonumber(opts.delay) or 0, tonumber(opts.priority) or 0
--@include storeJob
  if delay ~= 0 then
--@include delayJob
    delayJob(prefix .. 'delayed', marker, events, id, tonumber(timestamp), delay, limit)
    return
  end
  if priority > 0 then
--@include pushPrioritized
    pushPrioritized(prefix .. 'prioritized', marker, prefix .. 'pc', id, priority, true)
  else
    call(opts.lifo and 'RPUSH' or 'LPUSH', prefix .. 'wait', id)
  end
  local meta, active = prefix .. 'meta', prefix .. 'active'
--@include wakeUnlessClosed
  call('XADD', events, 'MAXLEN', '~', limit, '*', 'event', 'waiting', 'jobId', id)
end
