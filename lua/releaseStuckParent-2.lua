-- releaseStuckParent-2 · lets a parent run that waits for children which do not exist. Ours: no other client calls it
-- KEYS[1] parent        hash  <prefix>:<queue>:<id>
-- KEYS[2] dependencies  set   <prefix>:<queue>:<id>:dependencies
-- ARGV[1] queue         text  qualified name of the parent's queue, no trailing colon
-- ARGV[2] id            text  of the parent
-- ARGV[3] now           ms
-- ARGV[4] ..  children  keys  that may be gone; one that exists stays pending
-- Reply   1 released   0 it waits for children that exist, or does not wait
-- Event   on the parent's queue: delayed {jobId, delay = ms when due}
--         or waiting {jobId, prev = waiting-children}
-- Why     repairs what a crash of another client, or a deleted key, left behind
-- Spec    protocol 03 S17                             Frozen  manifest.toml
--@include releaseParent
local parent, dependencies = KEYS[1], KEYS[2]
local queue, id, now = ARGV[1], ARGV[2], tonumber(ARGV[3])
if not (now and now - now == 0) then return redis.error_reply('releaseStuckParent: ARGV[3] must be a time') end
local waiting = queue .. ':waiting-children'
if redis.call('EXISTS', parent) == 0 or not redis.call('ZSCORE', waiting, id) then return 0 end
for i = 4, #ARGV do
  if redis.call('EXISTS', ARGV[i]) == 0 then redis.call('SREM', dependencies, ARGV[i]) end
end
if redis.call('EXISTS', dependencies) == 1 then return 0 end
redis.call('ZREM', waiting, id)
releaseParent(queue, parent, id, now)
return 1
