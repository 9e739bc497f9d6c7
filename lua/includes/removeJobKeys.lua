-- removeJobKeys · deletes all that belongs to a job, except its lock
-- jobKey   key  <prefix>:<queue>:<id>
-- Returns  how many keys there were
-- Why      UNLINK frees what is large (a hundred thousand children) beside the server's work
-- Spec     protocol 01 section 2; 03 S13; 04 M6
local function removeJobKeys(jobKey)
  return redis.call('UNLINK', jobKey, jobKey .. ':logs', jobKey .. ':dependencies',
    jobKey .. ':processed', jobKey .. ':failed', jobKey .. ':unsuccessful')
end
