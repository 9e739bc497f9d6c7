-- deleteJob · deletes a job for good: relations, deduplication, keys. Its place in a state is the caller's
-- prefix     text  <prefix>:<queue>:
-- id         text
-- parentKey  key   the job's parentKey, or false
-- dedupId    text  the job's deid, or false
-- Spec       protocol 04 M8; 02 S14
--@include dropFromParentHard
--@include freeDedup
--@include removeJobKeys
local function deleteJob(prefix, id, parentKey, dedupId)
  local jobKey = prefix .. id
  dropFromParentHard(prefix, jobKey, parentKey, dedupId)
  freeDedup(prefix, id, dedupId)
  removeJobKeys(jobKey)
end
