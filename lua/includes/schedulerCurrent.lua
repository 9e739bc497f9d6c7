-- schedulerCurrent · is this the job that a scheduler has pending or running?
-- repeatKey    zset  <prefix>:<queue>:repeat, scheduler id -> slot in ms
-- id           text  job id
-- schedulerId  text  the job's rjk, or false or nil
-- Returns      true for the current iteration; earlier ones are ordinary jobs
-- Spec         protocol 04 M9
local function schedulerCurrent(repeatKey, id, schedulerId)
  if not schedulerId then return false end
  local slot = redis.call('ZSCORE', repeatKey, schedulerId)
  return slot and id == 'repeat:' .. schedulerId .. ':' .. slot
end
