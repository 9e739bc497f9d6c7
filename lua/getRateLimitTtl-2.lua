-- getRateLimitTtl-2 · how long the rate limit holds
-- KEYS[1] limiter  string  <prefix>:<queue>:limiter
-- KEYS[2] meta     hash    <prefix>:<queue>:meta
-- ARGV[1] max      starts a window allows; 0 for the queue's own limit
-- Reply   ms, 0 when jobs may start; without any max the raw PTTL, so also -1 and -2
-- Spec    protocol 03 3.10, S10                Frozen  manifest.toml
--@include rateLimitTtl
local max = tonumber(ARGV[1])
if not max then return redis.error_reply('getRateLimitTtl: needs a number') end
if max == 0 then max = tonumber(redis.call('HGET', KEYS[2], 'max')) end
return max and rateLimitTtl(KEYS[1], max) or redis.call('PTTL', KEYS[1])
