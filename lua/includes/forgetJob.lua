-- forgetJob · takes a job out of its state, deletes all of it and announces that
-- prefix  text  <prefix>:<queue>:
-- id      text
-- Event   removed {jobId, prev = state it was in, or unknown}, trimmed; none if nothing was there
-- Spec    protocol 03 S21 (5-7); 04 2.5
--@include freeDedup
--@include maxEvents
--@include removeJobKeys
local function forgetJob(prefix, id)
  local function leaveState()
    for _, state in ipairs({ 'completed', 'waiting-children', 'delayed', 'failed', 'prioritized' }) do
      if redis.call('ZREM', prefix .. state, id) == 1 then return state end
    end
    for _, state in ipairs({ 'wait', 'paused', 'active' }) do
      if redis.call('LREM', prefix .. state, '1', id) == 1 then return state end
    end
    return 'unknown'
  end
  local previous = leaveState()
  freeDedup(prefix, id, redis.call('HGET', prefix .. id, 'deid'))
  if removeJobKeys(prefix .. id) > 0 then
    redis.call('XADD', prefix .. 'events', 'MAXLEN', '~', maxEvents(prefix .. 'meta'), '*',
      'event', 'removed', 'jobId', id, 'prev', previous)
  end
end
