-- keepFinished · removes finished jobs that are too old or too many
-- prefix    text    <prefix>:<queue>:
-- finished  zset    <prefix>:<queue>:completed or :failed
-- now       text    ms
-- age       number  s, or nil
-- limit     number  how many of that age at once, or nil for 1000
-- count     number  how many stay, or nil; 0 and below for all
-- Writes    no event, no deduplication key; a parent that waits for a removed child may run
-- Why       the oldest go first, so that a small limit cannot let them stay for ever
-- Spec      protocol 03 S14
--@include dropDependency
--@include removeJobKeys
local function keepFinished(prefix, finished, now, age, limit, count)
  local function removeAll(ids, step)
    for i = #ids - step + 1, 1, -step do
      local job = prefix .. ids[i]
      -- An error is a key of another kind, which goes as well.
      local parentKey = redis.pcall('HGET', job, 'parentKey')
      if type(parentKey) == 'string' and redis.call('EXISTS', parentKey) == 1 then dropDependency(job, parentKey) end
      removeJobKeys(job)
    end
  end
  if age then
    local ids = redis.call('ZRANGEBYSCORE', finished, '-inf', now - age * 1000, 'LIMIT', '0', limit or '1000')
    if ids[1] then
      removeAll(ids, 1)
      redis.call('ZREMRANGEBYRANK', finished, '0', #ids - 1)
    end
  end
  if count and count > 0 then
    local excess = redis.call('ZCARD', finished) - count
    if excess > 0 then removeAll(redis.call('ZPOPMIN', finished, excess), 2) end
  end
end
