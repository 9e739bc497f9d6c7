-- lockRead · locks a job that has just become active and whose hash has been read, and completes what was read
-- job, id       key, text
-- fields        table   its hash: field, value, ..; as it is afterwards
-- now, opts, max, duration, limiter, events   as in takeJob
-- token         text
-- Returns  number  bytes of the fields as they were
-- Event    active {jobId, prev = waiting}, untrimmed
-- Writes   as takeJob, but no marker
-- Why      one read and one write instead of a look, two writes and a read
-- Spec     protocol 03 S11
local function lockRead(job, id, fields, now, opts, token, max, duration, limiter, events)
  local bytes, size, isFailed = 0, #fields, false
  local ats, processedOn, pb
  for i = 1, size, 2 do
    local field = fields[i]
    bytes = bytes + #fields[i + 1]
    if field == 'ats' then
      ats = i + 1
    elseif field == 'processedOn' then
      processedOn = i + 1
    elseif field == 'pb' then
      pb = i + 1
    elseif field == 'defa' then
      isFailed = true
    end
  end
  local function put(at, field, value)
    if at then
      fields[at] = value
    else
      fields[size + 1], fields[size + 2] = field, value
      size = size + 2
    end
  end

  if max and not isFailed and redis.call('INCR', limiter) == 1 then redis.call('PEXPIRE', limiter, duration) end
  redis.call('SET', job .. ':lock', token, 'PX', opts.lockDuration)
  redis.call('XADD', events, '*', 'event', 'active', 'jobId', id, 'prev', 'waiting')
  local starts = '1'
  if ats then
    -- A count that is no number starts anew.
    starts = redis.pcall('HINCRBY', job, 'ats', '1')
    starts = type(starts) == 'number' and string.format('%.0f', starts) or '1'
  end
  put(ats, 'ats', starts)
  put(processedOn, 'processedOn', now)
  if opts.name then
    redis.call('HSET', job, 'ats', starts, 'processedOn', now, 'pb', opts.name)
    put(pb, 'pb', opts.name)
  else
    redis.call('HSET', job, 'ats', starts, 'processedOn', now)
  end
  return bytes
end
