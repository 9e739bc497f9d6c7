-- delayedScore · place of a job in the delayed set
-- delayed    zset    <prefix>:<queue>:delayed
-- timestamp  number  ms
-- delay      number  ms; 0 and below mean due at once
-- Returns    score; ms when due
-- Why        4096 scores share a millisecond, so jobs due together keep their order;
--            once all are used up the last is shared
-- Spec       protocol 02 S7; 01 section 5
local function delayedScore(delayed, timestamp, delay)
  local due = timestamp
  if delay > 0 then due = timestamp + delay end
  local first = due * 4096
  local last = first + 4095
  local used = redis.call('ZREVRANGEBYSCORE', delayed, last, first, 'WITHSCORES', 'LIMIT', '0', '1')[2]
  if not used then return first, due end
  used = used + 1
  if used > last then used = last end
  return used, due
end
