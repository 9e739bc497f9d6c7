-- extendLocks-1 · a worker keeps all its jobs
-- KEYS[1] stalled   set      <prefix>:<queue>:stalled
-- ARGV[1] prefix    text     <prefix>:<queue>:, lock keys <prefix><id>:lock are made with it
-- ARGV[2] tokens    msgpack  array of texts
-- ARGV[3] ids       msgpack  array of texts, paired with the tokens by position
-- ARGV[4] duration  ms
-- Reply   ids not extended because another token or none holds them
-- Spec    protocol 03 3.8                      Frozen  manifest.toml
--@include inChunks
local prefix, tokens, ids = ARGV[1], cmsgpack.unpack(ARGV[2]), cmsgpack.unpack(ARGV[3])
local duration = tonumber(ARGV[4])
if type(tokens) ~= 'table' or type(ids) ~= 'table' then
  return redis.error_reply('extendLocks: needs an array of tokens and one of ids')
end
if not (duration and duration >= 1 and duration % 1 == 0) then
  return redis.error_reply('extendLocks: the duration of a lock must be whole milliseconds above 0')
end
local locks, kept, lost = {}, {}, {}
for i, id in ipairs(ids) do locks[i] = prefix .. id .. ':lock' end
for first = 1, #ids, 5000 do
  local holders = redis.call('MGET', unpack(locks, first, math.min(first + 4999, #ids)))
  for i, holder in ipairs(holders) do
    local at = first + i - 1
    if holder and holder == tokens[at] then
      redis.call('PEXPIRE', locks[at], ARGV[4])
      kept[#kept + 1] = ids[at]
    else
      lost[#lost + 1] = ids[at]
    end
  end
end
inChunks('SREM', KEYS[1], kept)
return lost
