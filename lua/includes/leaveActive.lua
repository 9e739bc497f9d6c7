-- leaveActive · takes a job out of the active list on behalf of the holder of its lock
-- active   list    <prefix>:<queue>:active
-- stalled  set     <prefix>:<queue>:stalled
-- lock     string  <prefix>:<queue>:<id>:lock
-- id       text
-- token    text    0: the job was taken without a lock, none is asked for
-- Returns  0   out of the list; lock and mark of the stalled check are gone
--         -2   no lock   -6  another token holds it   -3  not active
-- Writes   nothing unless it returns 0: a refused caller keeps its lock
-- Spec     protocol 03 S1, 6.1
local function leaveActive(active, stalled, lock, id, token)
  if token ~= '0' then
    local holder = redis.call('GET', lock)
    if holder ~= token then return holder and -6 or -2 end
  end
  -- A running job is most often among the oldest, and those are at the tail.
  if redis.call('LREM', active, '-1', id) == 0 then return -3 end
  if token ~= '0' then
    redis.call('DEL', lock)
    redis.call('SREM', stalled, id)
  end
  return 0
end
