-- releaseLock-1 · gives a lock up
-- KEYS[1] lock   string  <prefix>:<queue>:<id>:lock
-- ARGV[1] token  text
-- Reply   1 released   0 not held with this token
-- Spec    protocol 03 3.8                      Frozen  manifest.toml
local call, lock = redis.call, KEYS[1]
if call('GET', lock) ~= ARGV[1] then return 0 end
return call('DEL', lock)
