-- getDependencyCounts-4 · how many children of a job have come how far
-- KEYS[1] processed     hash  <prefix>:<queue>:<id>:processed
-- KEYS[2] dependencies  set   :dependencies
-- KEYS[3] failed        hash  :failed, failures the parent ignores
-- KEYS[4] unsuccessful  zset  :unsuccessful
-- ARGV    words  processed, unprocessed, ignored; any other counts the failed ones
-- Reply   one number a word, in the same order
-- Spec    protocol 03 3.10                     Frozen  manifest.toml
local call, args, counts = redis.call, ARGV, {}
for i = 1, #args do
  local word = args[i]
  if word == 'processed' then
    counts[i] = call('HLEN', KEYS[1])
  elseif word == 'unprocessed' then
    counts[i] = call('SCARD', KEYS[2])
  elseif word == 'ignored' then
    counts[i] = call('HLEN', KEYS[3])
  else
    counts[i] = call('ZCARD', KEYS[4])
  end
end
return counts
