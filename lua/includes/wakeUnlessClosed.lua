-- wakeUnlessClosed · sets the base marker, unless no job may be started in this queue now; runs in place
-- Needs    call; meta hash, active list, marker zset: keys of the queue
-- Why      while jobs wait it is most often there, which changes nothing: the queue is only asked where it is new.
--          Taken back in the same call, it has been seen by nobody
-- Spec     protocol 02 S3, S4
if call('ZADD', marker, '0', '0') == 1 then
  local set = call('HMGET', meta, 'paused', 'concurrency')
  if set[1] or set[2] and call('LLEN', active) >= tonumber(set[2]) then call('ZREM', marker, '0') end
end
