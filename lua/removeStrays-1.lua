-- removeStrays-1 · removes what names no job any more. Ours: no other client calls it
-- KEYS[1] prefix  text  <prefix>:<queue>:, not a key that exists
-- ARGV[1] kind    text  locks: of jobs that are not active, if they never end
--                       deduplication: held for ever by a job that is gone or has finished
--                       the name of a list or set of jobs: its ids without a job
-- ARGV[2] ..      ids   of jobs, or deduplication ids
-- Reply   how many went
-- Why     looks again at each: what was stray a moment ago may be a job now
-- Spec    protocol 01 section 2; 02 S14               Frozen  manifest.toml
local prefix, kind = KEYS[1], ARGV[1]
local removed = 0
local lists = { wait = true, active = true, paused = true }
local sets = { prioritized = true, delayed = true, completed = true, failed = true, ['waiting-children'] = true }
if not (lists[kind] or sets[kind] or kind == 'locks' or kind == 'deduplication') then
  return redis.error_reply('removeStrays: ARGV[1] must be locks, deduplication, or a list or set of jobs')
end

local function isOver(id)
  return redis.call('EXISTS', prefix .. id) == 0
    or redis.call('ZSCORE', prefix .. 'completed', id) or redis.call('ZSCORE', prefix .. 'failed', id)
end

for i = 2, #ARGV do
  local id, gone = ARGV[i], 0
  if kind == 'locks' then
    local lock = prefix .. id .. ':lock'
    if redis.call('PTTL', lock) == -1 and not redis.call('LPOS', prefix .. 'active', id) then
      gone = redis.call('DEL', lock)
    end
  elseif kind == 'deduplication' then
    local key = prefix .. 'de:' .. id
    local owner = redis.call('GET', key)
    if owner and redis.call('PTTL', key) == -1 and isOver(owner) then gone = redis.call('DEL', key) end
  elseif redis.call('TYPE', prefix .. id).ok ~= 'hash' then
    gone = lists[kind] and redis.call('LREM', prefix .. kind, '0', id) or redis.call('ZREM', prefix .. kind, id)
  end
  removed = removed + gone
end
return removed
