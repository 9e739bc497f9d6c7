-- rateLimitTtl · how long no further job may be started
-- limiter  string  <prefix>:<queue>:limiter, counts the starts of the current window
-- max      number  starts a window allows
-- Returns  ms, 0 when jobs may start
-- Spec     protocol 03 S10
local function rateLimitTtl(limiter, max)
  if max > tonumber(redis.call('GET', limiter) or 0) then return 0 end
  local ttl = redis.call('PTTL', limiter)
  if ttl > 0 then return ttl end
  -- The window ends in this very millisecond.
  if ttl == 0 then redis.call('DEL', limiter) end
  return 0
end
