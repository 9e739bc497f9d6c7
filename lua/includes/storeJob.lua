-- storeJob · writes a job's hash and announces it; runs in place
-- Needs    call      redis.call
--          jobKey    key     <prefix>:<queue>:<id>; fields it may hold already survive
--          id, name  text
--          data      text    JSON, stored untouched
--          optsJson  text    JSON of opts
--          opts      table   delay, priority and de.id are copied into fields of their own
--          timestamp ms      stored as given, number or text
--          parentKey, parentJson   text, or nil
--          rjk       text    scheduler id, or nil
--          events    stream  <prefix>:<queue>:events
-- Event    added {jobId, name}, untrimmed
-- Spec     protocol 02 S2
if parentKey then
  call('HSET', jobKey, 'name', name, 'data', data, 'opts', optsJson, 'timestamp', timestamp,
    'delay', opts.delay or '0', 'priority', opts.priority or '0', 'parentKey', parentKey, 'parent', parentJson)
else
  call('HSET', jobKey, 'name', name, 'data', data, 'opts', optsJson, 'timestamp', timestamp,
    'delay', opts.delay or '0', 'priority', opts.priority or '0')
end
if rjk then call('HSET', jobKey, 'rjk', rjk) end
if opts.de and opts.de.id then call('HSET', jobKey, 'deid', opts.de.id) end
call('XADD', events, '*', 'event', 'added', 'jobId', id, 'name', name)
