-- childReturns · a finished child that runs again is pending at its parent again
-- childKey  key   hash of the child; its parentKey tells the parent
-- previous  text  failed or completed: where the child comes from
-- Writes    only where the parent exists and had recorded the child; the parent stays where it is
-- Spec      protocol 03 S20
local function childReturns(childKey, previous)
  local parentKey = redis.call('HGET', childKey, 'parentKey')
  if not parentKey or redis.call('EXISTS', parentKey) == 0 then return end
  local known
  if previous == 'failed' then
    known = redis.call('ZREM', parentKey .. ':unsuccessful', childKey) == 1
      or redis.call('HDEL', parentKey .. ':failed', childKey) == 1
  else
    known = redis.call('HDEL', parentKey .. ':processed', childKey) == 1
  end
  if known then redis.call('SADD', parentKey .. ':dependencies', childKey) end
end
