-- getDependencyCounts-4 · how many children of a job have come how far
-- KEYS[1] processed     hash  <prefix>:<queue>:<id>:processed
-- KEYS[2] dependencies  set   :dependencies
-- KEYS[3] failed        hash  :failed, failures the parent ignores
-- KEYS[4] unsuccessful  zset  :unsuccessful
-- ARGV    words  processed, unprocessed, ignored; any other counts the failed ones
-- Reply   one number a word, in the same order
-- Spec    protocol 03 3.10                     Frozen  manifest.toml
local counts = {}
for i, word in ipairs(ARGV) do
  if word == 'processed' then
    counts[i] = redis.call('HLEN', KEYS[1])
  elseif word == 'unprocessed' then
    counts[i] = redis.call('SCARD', KEYS[2])
  elseif word == 'ignored' then
    counts[i] = redis.call('HLEN', KEYS[3])
  else
    counts[i] = redis.call('ZCARD', KEYS[4])
  end
end
return counts
