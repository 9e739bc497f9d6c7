-- deduplicate · may a job with a deduplication id be added?
-- args        table   ARGV[1] of the add scripts, decoded
-- opts        table   job options; de = {id, ttl, extend, replace, reschedule, keepLastIfActive}
-- optsJson    text    JSON of opts
-- data        text    JSON
-- id          text    of the new job
-- parentJson  text    or nil
-- delayed     zset    <prefix>:<queue>:delayed; nil where delayed owners are let be
-- events      stream  <prefix>:<queue>:events
-- limit       MAXLEN of the event log
-- Returns     nil: add it. Otherwise the id of the job it gives way to
-- Events      deduplicated, removed, delayed
-- Writes      args[9], the key that names the owner; <prefix>dn:<de.id>, the job to run
--             after an active owner; <prefix>marker and the owner's keys
-- Spec        protocol 02 S13
local function deduplicate(args, opts, optsJson, data, id, parentJson, delayed, events, limit)
  local de, prefix, key = opts.de, args[1], args[9]
  local keep, replace = de.keepLastIfActive, de.replace and delayed
  local ttl = tonumber(de.ttl) or 0

  local function own(newOwner)
    -- The owner of a job kept for later must be known for as long as it runs.
    if ttl > 0 and not keep then
      redis.call('SET', key, newOwner, 'PX', ttl)
    else
      redis.call('SET', key, newOwner)
    end
  end

  local function announce(jobId, otherId)
    redis.call('XADD', events, 'MAXLEN', '~', limit, '*', 'event', 'deduplicated',
      'jobId', jobId, 'deduplicationId', de.id, 'deduplicatedJobId', otherId)
  end

  local owner = redis.call('GET', key)
  if not owner then
    own(id)
    return nil
  end
  local ownerKey, nextKey = prefix .. owner, prefix .. 'dn:' .. de.id

  if replace and redis.call('ZREM', delayed, owner) == 1 then
--@include removeJobKeys
    removeJobKeys(ownerKey)
    redis.call('XADD', events, '*', 'event', 'removed', 'jobId', owner, 'prev', 'delayed')
    announce(id, owner)
    redis.call('DEL', nextKey)
    if ttl > 0 and not keep and not de.extend then
      redis.call('SET', key, id, 'KEEPTTL')
    else
      own(id)
    end
    return nil
  end

  -- A key without expiry that names a job long gone would refuse for ever.
  if redis.call('EXISTS', ownerKey) == 0 and redis.call('PTTL', key) == -1 then
    redis.call('DEL', nextKey)
    own(id)
    return nil
  end

  if keep and redis.call('LPOS', prefix .. 'active', owner) then
    local fields = { 'name', args[3], 'data', data, 'opts', optsJson, 'jid', id }
    for name, value in pairs({ pk = args[5], pd = parentJson, pdk = args[6], rjk = args[8] }) do
      fields[#fields + 1] = name
      fields[#fields + 1] = value
    end
    redis.call('DEL', nextKey)
    redis.call('HSET', nextKey, unpack(fields))
    redis.call('PERSIST', key)
    announce(owner, id)
  elseif not replace then
    if ttl > 0 and de.extend then own(owner) end
    announce(owner, id)
  end

  if de.reschedule and not replace and delayed and redis.call('ZSCORE', delayed, owner) then
--@include delayJob
    redis.call('HSET', ownerKey, 'delay', opts.delay or '0')
    delayJob(delayed, prefix .. 'marker', events, owner, tonumber(args[4]), tonumber(opts.delay) or 0, limit)
  end
  return owner
end
