-- isFinished-3 · has a job ended, and how
-- KEYS[1] completed  zset  <prefix>:<queue>:completed
-- KEYS[2] failed     zset  <prefix>:<queue>:failed
-- KEYS[3] job        hash  <prefix>:<queue>:<id>
-- ARGV[1] id
-- ARGV[2] detailed   text  1: with the result
-- Reply   1 completed   2 failed   0 neither   -1 job hash absent
--         detailed: {1, returnvalue}   {2, failedReason}   {0}   {-1, text}
-- Spec    protocol 03 3.10                     Frozen  manifest.toml
local call, job, id, isDetailed = redis.call, KEYS[3], ARGV[1], ARGV[2] == '1'
if call('EXISTS', job) == 0 then
  return isDetailed and {-1, 'Missing key for job ' .. job .. '. isFinished'} or -1
end
local state, property = 0, nil
if call('ZSCORE', KEYS[1], id) then
  state, property = 1, 'returnvalue'
elseif call('ZSCORE', KEYS[2], id) then
  state, property = 2, 'failedReason'
end
if not isDetailed then return state end
return {state, property and call('HGET', job, property)}
