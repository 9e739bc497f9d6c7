-- forgetJob · takes a job out of its state, deletes all of it and announces that
-- prefix  text  <prefix>:<queue>:
-- id      text
-- Event   removed {jobId, prev = state it was in, or unknown}, trimmed; none if nothing was there
-- Spec    protocol 03 S21 (5-7); 04 2.5
--@include freeDedup
--@include maxEvents
--@include removeJobKeys
local places = {'completed', 'waiting-children', 'delayed', 'failed', 'prioritized', 'wait', 'paused', 'active'}
local eventLimits = {}
local function forgetJob(prefix, id)
  local jobKey, previous = prefix .. id, 'unknown'
  for i, place in ipairs(places) do
    -- The first five are sorted sets, the others lists.
    local gone = i <= 5 and redis.call('ZREM', prefix .. place, id) or redis.call('LREM', prefix .. place, '1', id)
    if gone == 1 then
      previous = place
      break
    end
  end
  freeDedup(prefix, id, redis.call('HGET', jobKey, 'deid'))
  if removeJobKeys(jobKey) > 0 then
    eventLimits[prefix] = eventLimits[prefix] or maxEvents(prefix .. 'meta')
    redis.call('XADD', prefix .. 'events', 'MAXLEN', '~', eventLimits[prefix], '*',
      'event', 'removed', 'jobId', id, 'prev', previous)
  end
end
