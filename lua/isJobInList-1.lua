-- isJobInList-1 · is a job in a list?
-- KEYS[1] list  list  such as <prefix>:<queue>:active
-- ARGV[1] id    text
-- Reply   1 or nil
-- Spec    protocol 04 3.8                       Frozen  manifest.toml
return redis.call('LPOS', KEYS[1], ARGV[1]) and 1
