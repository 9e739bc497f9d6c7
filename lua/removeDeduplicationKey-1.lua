-- removeDeduplicationKey-1 · frees a deduplication id, if a given job owns it
-- KEYS[1] dedup  string  <prefix>:<queue>:de:<deduplication id>
-- ARGV[1] id     text    of the job
-- Reply   1   freed
--         0   unknown, or owned by another job
-- Spec    protocol 02 section 4.3                     Frozen  manifest.toml
local call, dedup = redis.call, KEYS[1]

if call('GET', dedup) == ARGV[1] then return call('DEL', dedup) end
return 0
