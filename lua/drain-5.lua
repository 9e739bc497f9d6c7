-- drain-5 · drop all jobs that have not started
-- KEYS[1] wait         list  <prefix>:<queue>:wait
-- KEYS[2] paused       list  <prefix>:<queue>:paused, of clients before 6
-- KEYS[3] delayed      zset  <prefix>:<queue>:delayed
-- KEYS[4] prioritized  zset  <prefix>:<queue>:prioritized
-- KEYS[5] repeat       zset  <prefix>:<queue>:repeat; the current jobs of schedulers stay
-- ARGV[1] prefix       text  <prefix>:<queue>:
-- ARGV[2] delayed      text  1: the delayed jobs as well
-- Reply   nil                                   Event   none
-- Spec    protocol 04 2.2                       Frozen  manifest.toml
--@include deleteJob
--@include inChunks
--@include schedulerCurrent
local prefix = ARGV[1]

-- Deletes the jobs; returns the ids that went and the ids that are spared.
local function deleteAll(ids)
  local gone, spared = {}, {}
  for i = 1, #ids do
    local id = ids[i]
    if schedulerCurrent(KEYS[5], id, id:match('^repeat:(.*):')) then
      spared[#spared + 1] = id
    else
      local job = redis.call('HMGET', prefix .. id, 'parentKey', 'deid')
      deleteJob(prefix, id, job[1], job[2])
      gone[#gone + 1] = id
    end
  end
  return gone, spared
end

for i = 1, 2 do
  local gone, spared = deleteAll(redis.call('LRANGE', KEYS[i], '0', '-1'))
  if #gone > 0 then
    redis.call('DEL', KEYS[i])
    inChunks('RPUSH', KEYS[i], spared)
  end
end
for i = ARGV[2] == '1' and 3 or 4, 4 do
  inChunks('ZREM', KEYS[i], (deleteAll(redis.call('ZRANGE', KEYS[i], '0', '-1'))))
end
