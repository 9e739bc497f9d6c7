-- keepFinished · removes finished jobs that are too old or too many
-- prefix    text    <prefix>:<queue>:
-- finished  zset    <prefix>:<queue>:completed or :failed
-- keep      table   age (s), count, limit: how many of age at once, 1000 unless given
-- now       number  ms
-- Writes    no event, no deduplication key; a parent that waits for a removed child may run
-- Why       the oldest go first, so that a small limit cannot let them stay for ever
-- Spec      protocol 03 S14
--@include dropDependency
--@include removeJobKeys
local function keepFinished(prefix, finished, keep, now)
  local function removeAll(ids, step)
    for i = #ids - step + 1, 1, -step do
      local job = prefix .. ids[i]
      local parentKey = redis.call('HGET', job, 'parentKey')
      if parentKey and redis.call('EXISTS', parentKey) == 1 then dropDependency(job, parentKey) end
      removeJobKeys(job)
    end
  end
  if keep.age then
    local ids = redis.call('ZRANGEBYSCORE', finished, '-inf', now - keep.age * 1000, 'LIMIT', '0', keep.limit or '1000')
    if ids[1] then
      removeAll(ids, 1)
      redis.call('ZREMRANGEBYRANK', finished, '0', #ids - 1)
    end
  end
  if keep.count and keep.count > 0 then
    local excess = redis.call('ZCARD', finished) - keep.count
    if excess > 0 then removeAll(redis.call('ZPOPMIN', finished, excess), 2) end
  end
end
