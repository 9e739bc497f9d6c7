-- jobState · the one state a job is in
-- id       text
-- Keys     KEYS[1] completed  KEYS[2] failed  KEYS[3] delayed  KEYS[4] active  KEYS[5] wait
--          KEYS[6] paused     KEYS[7] waiting-children         KEYS[8] prioritized
-- Returns  word; unknown when no state knows the id
-- Spec     protocol 01 section 11; 04 3.5
local function jobState(id)
  if redis.call('ZSCORE', KEYS[1], id) then return 'completed' end
  if redis.call('ZSCORE', KEYS[2], id) then return 'failed' end
  if redis.call('ZSCORE', KEYS[3], id) then return 'delayed' end
  if redis.call('ZSCORE', KEYS[8], id) then return 'prioritized' end
  if redis.call('LPOS', KEYS[4], id) then return 'active' end
  if redis.call('LPOS', KEYS[5], id) or redis.call('LPOS', KEYS[6], id) then return 'waiting' end
  if redis.call('ZSCORE', KEYS[7], id) then return 'waiting-children' end
  return 'unknown'
end
