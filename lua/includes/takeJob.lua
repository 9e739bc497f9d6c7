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
  -- A key of another kind is no job either, and would end each take at this id.
  if redis.call('TYPE', job).ok ~= 'hash' then return end
  if max and redis.call('HEXISTS', job, 'defa') == 0 and redis.call('INCR', limiter) == 1 then
    redis.call('PEXPIRE', limiter, duration)
  end
  if token ~= '0' then
    redis.call('SET', job .. ':lock', token, 'PX', opts.lockDuration)
  end
  redis.call('XADD', events, '*', 'event', 'active', 'jobId', id, 'prev', 'waiting')
  -- A count that is no number starts anew: the job is in active already, and somebody has to get it.
  if type(redis.pcall('HINCRBY', job, 'ats', '1')) ~= 'number' then redis.call('HSET', job, 'ats', '1') end
  if name then
    redis.call('HSET', job, 'processedOn', now, 'pb', name)
  else
    redis.call('HSET', job, 'processedOn', now)
  end
  redis.call('ZADD', marker, '0', '0')
  return {redis.call('HGETALL', job), id, 0, 0}
end
