-- removeOld · deletes those of some jobs that are old enough; their places are the caller's
-- prefix      text    <prefix>:<queue>:
-- schedulers  zset    <prefix>:<queue>:repeat; their current jobs stay
-- state       text    wait, paused, active, delayed, prioritized: a job's time is in its hash, and an
--                     active one with a lock stays. Any other: all ids are old enough
-- ids         array   ids in that state
-- cutoff      ms      jobs of that time or older go, and those without a time
-- most        number  how many may go
-- Returns     ids that went; index of each in ids; ids that stay; how many were looked at
-- Spec        protocol 04 2.3
--@include deleteJob
--@include schedulerCurrent
local function removeOld(prefix, schedulers, state, ids, cutoff, most)
  local times = {
    wait = { 'finishedOn', 'processedOn', 'timestamp' },
    delayed = { 'processedOn', 'timestamp', 'timestamp' },
    prioritized = { 'timestamp', 'timestamp', 'timestamp' },
  }
  times.paused, times.active = times.wait, times.wait
  local time = times[state]
  local gone, places, kept = {}, {}, {}
  for i = 1, #ids do
    local id = ids[i]
    local job, old
    if time then
      job = redis.call('HMGET', prefix .. id, 'parentKey', 'deid', 'rjk', unpack(time))
      local since = tonumber(job[4] or job[5] or job[6])
      old = (not since or since <= cutoff) and not schedulerCurrent(schedulers, id, job[3])
        and (state ~= 'active' or redis.call('EXISTS', prefix .. id .. ':lock') == 0)
    else
      job, old = redis.call('HMGET', prefix .. id, 'parentKey', 'deid'), true
    end
    if old then
      deleteJob(prefix, id, job[1], job[2])
      gone[#gone + 1], places[#places + 1] = id, i
      if #gone == most then return gone, places, kept, i end
    else
      kept[#kept + 1] = id
    end
  end
  return gone, places, kept, #ids
end
