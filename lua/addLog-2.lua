-- addLog-2 · appends a row to the log of a job
-- KEYS[1] job   hash  <prefix>:<queue>:<id>
-- KEYS[2] logs  list  <prefix>:<queue>:<id>:logs
-- ARGV[1] id    text  unused
-- ARGV[2] row   text
-- ARGV[3] keep  how many rows stay, the newest; empty or absent for all
-- Reply   number of rows   -1 job hash absent
-- Spec    protocol 03 3.9                      Frozen  manifest.toml
local logs, keep = KEYS[2], nil
if ARGV[3] and ARGV[3] ~= '' then
  keep = tonumber(ARGV[3])
  if not (keep and keep >= 1 and keep % 1 == 0) then
    return redis.error_reply('addLog: the number of log rows to keep must be whole and above 0')
  end
end
if redis.call('EXISTS', KEYS[1]) == 0 then return -1 end
local rows = redis.call('RPUSH', logs, ARGV[2])
if not keep or rows <= keep then return rows end
redis.call('LTRIM', logs, -keep, '-1')
return keep
