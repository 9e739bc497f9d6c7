-- storeJob · writes a job's hash and announces it
-- jobKey      key     <prefix>:<queue>:<id>; fields it may hold already survive
-- id, name    text
-- data        text    JSON, stored untouched
-- optsJson    text    JSON of opts
-- opts        table   delay, priority and de.id are copied into fields of their own
-- timestamp   ms      stored as given, number or text
-- parentKey   text    or nil
-- parentJson  text    read with parentKey only
-- rjk         text    scheduler id, or nil
-- events      stream  <prefix>:<queue>:events
-- Event       added {jobId, name}, untrimmed
-- Spec        protocol 02 S2
local function storeJob(jobKey, id, name, data, optsJson, opts, timestamp, parentKey, parentJson, rjk, events)
  local call, de = redis.call, opts.de
  call('HSET', jobKey, 'name', name, 'data', data, 'opts', optsJson, 'timestamp', timestamp,
    'delay', opts.delay or '0', 'priority', opts.priority or '0')
  if parentKey then call('HSET', jobKey, 'parentKey', parentKey, 'parent', parentJson) end
  if rjk then call('HSET', jobKey, 'rjk', rjk) end
  if de and de.id then call('HSET', jobKey, 'deid', de.id) end
  call('XADD', events, '*', 'event', 'added', 'jobId', id, 'name', name)
end
