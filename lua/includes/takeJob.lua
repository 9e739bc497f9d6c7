-- takeJob · locks a job that has just become active and hands it out; runs in place
-- Needs    call           redis.call
--          prefix         text    <prefix>:<queue>:
--          id             text
--          now            text    ms, stored as given
--          opts           table   token, lockDuration, name (see checkTake)
--          max, duration  number  the rate limit, or nil; a job that is only to be failed is not counted
--          limiter  string   events  stream   marker  zset
-- Gives    taken: {{field, value, ..}, id, 0, 0}; nil, with nothing written, for an id without a job
-- Event    active {jobId, prev = waiting}, untrimmed
-- Writes   lock; processedOn, ats, pb; the base marker, so that another worker looks too
-- Why      whether there is a job shows in what is read in the end; asking before would be one more command
-- Spec     protocol 03 S11
local job, name, taken = prefix .. id, opts.name, nil
-- An error is a count that is no number, which starts anew, or a key of another kind, which is no job.
local starts = redis.pcall('HINCRBY', job, 'ats', '1')
local isHash = starts == 1 or type(starts) == 'number'
if not isHash and call('TYPE', job).ok == 'hash' then
  isHash = true
  call('HSET', job, 'ats', '1')
end
if isHash then
  local added
  if name then
    added = call('HSET', job, 'processedOn', now, 'pb', name)
  else
    added = call('HSET', job, 'processedOn', now)
  end
  local fields = call('HGETALL', job)
  if starts == 1 and #fields == 2 + 2 * added and added == (name and 2 or 1) then
    -- What was just written is all there is.
    call('DEL', job)
  else
    if max and call('HEXISTS', job, 'defa') == 0 and call('INCR', limiter) == 1 then
      call('PEXPIRE', limiter, duration)
    end
    if opts.token ~= '0' then call('SET', job .. ':lock', opts.token, 'PX', opts.lockDuration) end
    call('XADD', events, '*', 'event', 'active', 'jobId', id, 'prev', 'waiting')
    call('ZADD', marker, '0', '0')
    taken = {fields, id, 0, 0}
  end
end
