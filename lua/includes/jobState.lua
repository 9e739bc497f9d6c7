-- jobState · the one state a job is in
-- id       text
-- Keys     KEYS[1] completed  KEYS[2] failed  KEYS[3] delayed  KEYS[4] active  KEYS[5] wait
--          KEYS[6] paused     KEYS[7] waiting-children         KEYS[8] prioritized
-- Returns  word; unknown when no state knows the id
-- Spec     protocol 01 section 11; 04 3.5
local function jobState(id)
  local call, completed, failed, delayed, active, wait, paused, waitingChildren, prioritized = redis.call, unpack(KEYS)
  if call('ZSCORE', completed, id) then return 'completed' end
  if call('ZSCORE', failed, id) then return 'failed' end
  if call('ZSCORE', delayed, id) then return 'delayed' end
  if call('ZSCORE', prioritized, id) then return 'prioritized' end
  if call('LPOS', active, id) then return 'active' end
  if call('LPOS', wait, id) or call('LPOS', paused, id) then return 'waiting' end
  if call('ZSCORE', waitingChildren, id) then return 'waiting-children' end
  return 'unknown'
end
