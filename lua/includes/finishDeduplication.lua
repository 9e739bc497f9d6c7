-- finishDeduplication · a job that ends gives up its deduplication id, a held-back job follows
-- prefix   text  <prefix>:<queue>:
-- id       text  the job that ends
-- dedupId  text  its deid
-- now      text  ms
-- limit    MAXLEN of the event log (see maxEvents)
-- Event    of the job that follows: added {jobId, name}; delayed {jobId, delay} or waiting {jobId}
-- Writes   an owner key that expires by itself is left to do so
-- Spec     protocol 03 S16; 01 section 10
--@include enqueueJob
--@include storedOptions
local function finishDeduplication(prefix, id, dedupId, now, limit)
  local owner, held = prefix .. 'de:' .. dedupId, prefix .. 'dn:' .. dedupId
  local ttl = redis.call('PTTL', owner)
  if ttl == 0 or ttl == -1 and redis.call('GET', owner) == id then redis.call('DEL', owner) end
  if redis.call('EXISTS', held) == 0 then return end

  local set = redis.call('HMGET', held, 'name', 'data', 'opts', 'pk', 'pd', 'pdk', 'rjk', 'jid')
  local opts = storedOptions(set[3] or '{}')
  -- What cannot become a job must not keep this one from ending.
  if not set[1] or not set[2] then
    redis.call('DEL', held)
    return
  end
  -- The counter moves on even where the id is known.
  local counter = redis.call('INCR', prefix .. 'id')
  local nextId, dedup = set[8] or tostring(counter), opts.de or {}
  local dedupMs = tonumber(dedup.ttl) or 0
  if dedupMs > 0 and not dedup.keepLastIfActive then
    redis.call('SET', owner, nextId, 'PX', dedupMs)
  else
    redis.call('SET', owner, nextId)
  end
  enqueueJob(prefix, nextId, set[1], set[2], cjson.encode(opts), opts, now, set[4], set[5], set[7], limit)
  if set[6] then redis.call('SADD', set[6], prefix .. nextId) end
  redis.call('DEL', held)
end
