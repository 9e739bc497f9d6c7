-- collectMetrics · counts a finished job, one point a minute
-- metrics  hash    <prefix>:<queue>:metrics:<completed|failed>
-- now      text    ms, stored as given
-- size     number  how many points <metrics>:data (list, newest first) may hold
-- Why      a point is written when its minute is over: the job at hand counts in the next one
-- Spec     protocol 03 S15
local function collectMetrics(metrics, now, size)
  local previous = redis.call('HINCRBY', metrics, 'count', '1') - 1
  local last = redis.call('HGET', metrics, 'prevTS')
  if not last then
    redis.call('HSET', metrics, 'prevTS', now, 'prevCount', '0')
    return
  end
  local minutes = math.min(math.floor(now / 60000) - math.floor(last / 60000), size)
  if minutes <= 0 then return end
  local data = metrics .. ':data'
  redis.call('LPUSH', data, previous - (redis.call('HGET', metrics, 'prevCount') or 0))
  for from = 2, minutes, 7000 do
    local zeros = {}
    for i = 1, math.min(minutes - from + 1, 7000) do zeros[i] = '0' end
    redis.call('LPUSH', data, unpack(zeros))
  end
  redis.call('LTRIM', data, '0', size - 1)
  redis.call('HSET', metrics, 'prevCount', previous, 'prevTS', now)
end
