-- freeDedup · gives up a deduplication id that a vanishing job still owns
-- prefix   text  <prefix>:<queue>:
-- id       text
-- dedupId  text  the job's deid, or false
-- Spec     protocol 04 M7
local function freeDedup(prefix, id, dedupId)
  if not dedupId then return end
  local owner = prefix .. 'de:' .. dedupId
  if redis.call('GET', owner) == id then
    redis.call('DEL', owner, prefix .. 'dn:' .. dedupId)
  end
end
