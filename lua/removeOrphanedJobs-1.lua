-- removeOrphanedJobs-1 · delete the keys of jobs that no state knows
-- KEYS[1] prefix      text     <prefix>:<queue>:
-- ARGV[1] n           integer  number of states
-- ARGV[..] states     text     names of keys; lists, sets and sorted sets are searched
-- ARGV[n+2] m         integer  number of sub-keys
-- ARGV[..] sub-keys   text     such as logs
-- ARGV[..] ids        text     candidates
-- Reply   number of candidates found in no state
-- Event   none
-- Spec    protocol 04 2.6                       Frozen  manifest.toml
local prefix = KEYS[1]
local stateCount = tonumber(ARGV[1])
local subKeyCount = stateCount and tonumber(ARGV[stateCount + 2])
if not (subKeyCount and stateCount > 0 and subKeyCount >= 0) then
  return redis.error_reply('removeOrphanedJobs: both counts must be numbers, and there must be states')
end

local commands = { list = 'LPOS', zset = 'ZSCORE', set = 'SISMEMBER' }
local searches, states = {}, {}
for i = 2, stateCount + 1 do
  local key = prefix .. ARGV[i]
  local command = commands[redis.call('TYPE', key).ok]
  if command then
    states[#states + 1] = key
    searches[#states] = command
  end
end

local function isKnown(id)
  for i = 1, #states do
    local found = redis.call(searches[i], states[i], id)
    -- Of these only SISMEMBER says no with a 0; LPOS means the head by it.
    if found and (found ~= 0 or searches[i] == 'LPOS') then return true end
  end
  return false
end

local removed = 0
local firstId = stateCount + subKeyCount + 3
for i = firstId, #ARGV do
  if not isKnown(ARGV[i]) then
    local job = prefix .. ARGV[i]
    local keys = { job }
    for j = stateCount + 3, firstId - 1 do keys[#keys + 1] = job .. ':' .. ARGV[j] end
    redis.call('DEL', unpack(keys))
    removed = removed + 1
  end
end
return removed
