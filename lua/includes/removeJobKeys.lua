-- removeJobKeys · deletes all that belongs to a job, except its lock
-- jobKey   key  <prefix>:<queue>:<id>
-- Returns  how many keys there were
-- Spec     protocol 01 section 2; 03 S13; 04 M6
local function removeJobKeys(jobKey)
  return redis.call('DEL', jobKey, jobKey .. ':logs', jobKey .. ':dependencies',
    jobKey .. ':processed', jobKey .. ':failed', jobKey .. ':unsuccessful')
end
