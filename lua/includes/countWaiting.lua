-- countWaiting · length of a list of waiting jobs, rid of a very old client's marker
-- list     list    <prefix>:<queue>:wait or paused
-- Returns  number of jobs; a marker (an id that begins 0:) at the tail is not counted
-- Writes   pops that marker, unless it is alone
-- Spec     protocol 04 M10
local function countWaiting(list)
  local count = redis.call('LLEN', list)
  if count > 0 and redis.call('LINDEX', list, '-1'):sub(1, 2) == '0:' then
    count = count - 1
    if count > 0 then redis.call('RPOP', list) end
  end
  return count
end
