-- getCountsPerPriority-2 · how many waiting jobs each priority has
-- KEYS[1] wait         list    <prefix>:<queue>:wait
-- KEYS[2] prioritized  zset    <prefix>:<queue>:prioritized
-- ARGV[..] priorities  integer 0 counts wait
-- Reply   one integer for each priority, in the order asked
-- Spec    protocol 04 3.2                       Frozen  manifest.toml
local call, args, counts = redis.call, ARGV, {}
for i = 1, #args do
  local priority = tonumber(args[i])
  if not priority then return redis.error_reply('getCountsPerPriority: a priority must be a number') end
  if priority == 0 then
    counts[i] = call('LLEN', KEYS[1])
  else
    counts[i] = call('ZCOUNT', KEYS[2], priority * 4294967296, (priority + 1) * 4294967296 - 1)
  end
end
return counts
