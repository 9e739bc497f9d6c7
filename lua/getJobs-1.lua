-- getJobs-1 · jobs of some states, with all their fields
-- KEYS[1] prefix       text     <prefix>:<queue>:
-- ARGV[1] first        integer  index in the order asked for
-- ARGV[2] last         integer  -1 is the end
-- ARGV[3] ascending    text     1: oldest first; else newest first
-- ARGV[4] windows      integer  most reads of a state to fill a page that met ids without a hash
-- ARGV[..] states      text     wait, paused, active or the name of a sorted set
-- Reply   one array for each state: [id, [field, value, ..]]; ids without a hash are skipped
-- Writes  drops a very old client's marker from the tail of wait or paused
-- Spec    protocol 04 3.4                       Frozen  manifest.toml
--@include dropLegacyMarker
local prefix, first, last = KEYS[1], tonumber(ARGV[1]), tonumber(ARGV[2])
local ascending, windows = ARGV[3] == '1', tonumber(ARGV[4])
if not (first and last and windows) then return redis.error_reply('getJobs: ARGV[1], [2] and [4] must be numbers') end
local lists = { wait = true, paused = true, active = true }
-- An index from the end cannot be paged on from.
local exact = first < 0 or last < 0
local wanted = exact and math.huge or last - first + 1

local function readWindow(key, isList, from, to)
  if not isList then return redis.call(ascending and 'ZRANGE' or 'ZREVRANGE', key, from, to) end
  if not ascending then return redis.call('LRANGE', key, from, to) end
  return redis.call('LRANGE', key, -1 - to, -1 - from)
end

local function readJobs(state)
  local key, isList = prefix .. state, lists[state]
  if isList and state ~= 'active' then dropLegacyMarker(key) end
  local jobs, count, from, to = {}, 0, first, last
  for _ = 1, exact and 1 or windows do
    local ids = readWindow(key, isList, from, to)
    if #ids == 0 then break end
    -- A window of a list is newest first, also where the oldest window was asked for.
    local i, step = 1, 1
    if isList and ascending then i, step = #ids, -1 end
    while ids[i] do
      -- A key of another kind gives an error, whose length is 0 as well: no job.
      local fields = redis.pcall('HGETALL', prefix .. ids[i])
      if #fields > 0 then
        count = count + 1
        jobs[count] = { ids[i], fields }
        if count == wanted then return jobs end
      end
      i = i + step
    end
    from, to = to + 1, to + wanted
  end
  return jobs
end

local found = {}
for i = 5, #ARGV do found[#found + 1] = readJobs(ARGV[i]) end
return found
