-- leaveActive · takes a job out of the active list on behalf of the holder of its lock; runs in place
-- Needs    call     redis.call
--          active   list    <prefix>:<queue>:active
--          stalled  set     <prefix>:<queue>:stalled
--          lock     string  <prefix>:<queue>:<id>:lock
--          id       text
--          token    text    0: the job was taken without a lock, none is asked for
-- Gives    left     0   out of the list; lock and mark of the stalled check are gone
--                   -2  no lock   -6  another token holds it   -3  not active
-- Writes   nothing unless it is 0: a refused caller keeps its lock
-- Spec     protocol 03 S1, 6.1
local holder, left = token, 0
if token ~= '0' then holder = call('GET', lock) end
if holder ~= token then
  left = holder and -6 or -2
-- A running job is most often among the oldest, and those are at the tail.
elseif call('LREM', active, '-1', id) == 0 then
  left = -3
elseif token ~= '0' then
  call('DEL', lock)
  call('SREM', stalled, id)
end
