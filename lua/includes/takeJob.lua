-- takeJob · locks a job that has just become active and hands it out
-- prefix         text    <prefix>:<queue>:
-- id             text
-- now            text    ms, stored as given
-- opts           table   token, lockDuration, name (see takeFault)
-- max, duration  number  the rate limit, or nil; a job that is only to be failed is not counted
-- limiter  string   events  stream   marker  zset
-- Returns  {{field, value, ..}, id, 0, 0}; nil, with nothing written, for an id without a job
-- Event    active {jobId, prev = waiting}, untrimmed
-- Writes   lock; processedOn, ats, pb; the base marker, so that another worker looks too
-- Spec     protocol 03 S11
local function takeJob(prefix, id, now, opts, max, duration, limiter, events, marker)
  local job, token, name = prefix .. id, opts.token, opts.name
  local fields = redis.call('HGETALL', job)
  local size = #fields
  if size == 0 then return end
  -- New fields go behind the old ones, changed ones keep their place.
  local started, startedAt, takenAt, workerAt, isDeferred = 1
  for i = 1, size, 2 do
    local field = fields[i]
    if field == 'ats' then
      started, startedAt = fields[i + 1] + 1, i + 1
    elseif field == 'processedOn' then
      takenAt = i + 1
    elseif field == 'pb' then
      workerAt = i + 1
    elseif field == 'defa' then
      isDeferred = true
    end
  end
  if not startedAt then fields[size + 1], startedAt, size = 'ats', size + 2, size + 2 end
  if not takenAt then fields[size + 1], takenAt, size = 'processedOn', size + 2, size + 2 end
  started = tostring(started)
  fields[startedAt], fields[takenAt] = started, now
  if max and not isDeferred and redis.call('INCR', limiter) == 1 then
    redis.call('PEXPIRE', limiter, duration)
  end
  if token ~= '0' then
    redis.call('SET', job .. ':lock', token, 'PX', opts.lockDuration)
  end
  redis.call('XADD', events, '*', 'event', 'active', 'jobId', id, 'prev', 'waiting')
  if name then
    if not workerAt then fields[size + 1], workerAt = 'pb', size + 2 end
    fields[workerAt] = name
    redis.call('HSET', job, 'processedOn', now, 'ats', started, 'pb', name)
  else
    redis.call('HSET', job, 'processedOn', now, 'ats', started)
  end
  redis.call('ZADD', marker, '0', '0')
  return {fields, id, 0, 0}
end
