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
  local fields = {
    'name', name, 'data', data, 'opts', optsJson, 'timestamp', timestamp,
    'delay', opts.delay or '0', 'priority', opts.priority or '0',
  }
  local count = 12
  if parentKey then
    fields[13], fields[14], fields[15], fields[16] = 'parentKey', parentKey, 'parent', parentJson
    count = 16
  end
  if rjk then
    fields[count + 1], fields[count + 2] = 'rjk', rjk
    count = count + 2
  end
  if opts.de and opts.de.id then
    fields[count + 1], fields[count + 2] = 'deid', opts.de.id
  end
  redis.call('HSET', jobKey, unpack(fields))
  redis.call('XADD', events, '*', 'event', 'added', 'jobId', id, 'name', name)
end
