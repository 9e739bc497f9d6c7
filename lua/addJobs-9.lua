-- addJobs-9 · adds many jobs without id of their own, parent or deduplication. Ours: no other client calls it
-- KEYS[1] wait         list     <prefix>:<queue>:wait
-- KEYS[2] meta         hash     <prefix>:<queue>:meta
-- KEYS[3] id           string   <prefix>:<queue>:id, counter
-- KEYS[4] delayed      zset     <prefix>:<queue>:delayed
-- KEYS[5] active       list     <prefix>:<queue>:active
-- KEYS[6] events       stream   <prefix>:<queue>:events
-- KEYS[7] marker       zset     <prefix>:<queue>:marker
-- KEYS[8] prioritized  zset     <prefix>:<queue>:prioritized
-- KEYS[9] pc           string   <prefix>:<queue>:pc, counter
-- ARGV[1] prefix       text     <prefix>:<queue>:
-- ARGV[2] head         msgpack  array: 1 the different options, each a map with wire names; 2 the different kinds of
--                               jobs, each an array of name, timestamp ms, place of its options in 1; 3 the order
--                               of the jobs: place of a kind in 2, how many of that kind come, and so on
-- ARGV[3] ..           text     data of each job, JSON, stored untouched; 3,000 at most
-- Reply   number of the first; the others have the next ones
-- Events  of each job as by addStandardJob, addDelayedJob or addPrioritizedJob; trimmed at the end
-- Why     what jobs have in common is sent, read and written once: a third of the server's time of single adds
-- Spec    protocol 02 section 2                       Frozen  manifest.toml
local wait, meta, counter, delayed, active = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local events, marker, prioritized, pc = KEYS[6], KEYS[7], KEYS[8], KEYS[9]
local prefix, count, call, text = ARGV[1], #ARGV - 2, redis.call, string.format

--@include queueState

local function expect(isRight, what)
  if not isRight then error('addJobs: no job added, nothing written: wrong or missing ' .. what, 0) end
end
expect(prefix and wait == prefix .. 'wait', 'key prefix')
local head = ARGV[2] and cmsgpack.unpack(ARGV[2])
expect(type(head) == 'table' and type(head[1]) == 'table' and type(head[2]) == 'table' and type(head[3]) == 'table',
  'head (three arrays)')
local options, kinds, order, json = head[1], head[2], head[3], {}

for place, opts in ipairs(options) do
  expect(type(opts) == 'table' and not (opts.de or opts.jobId or opts.parent),
    'options (map, without id, parent and deduplication)')
  json[place] = cjson.encode(opts)
end

local laterCount, urgentCount, ordered = 0, 0, 0
for _, kind in ipairs(kinds) do
  expect(type(kind) == 'table', 'kind of job (array)')
  local name, timestamp, opts = type(kind[1]), tonumber(kind[2]), options[kind[3] or 0]
  expect(name == 'string' or name == 'number', 'job name (text)')
  expect(timestamp and timestamp % 1 == 0, 'timestamp (ms)')
  expect(opts, 'options of a kind of job')
  local delay, priority = tonumber(opts.delay or 0), tonumber(opts.priority or 0)
  expect(delay and delay % 1 == 0, 'option delay (ms)')
  expect(priority and priority % 1 == 0, 'option priority (number)')
  -- As text, once: each command would convert numbers again.
  kind.opts, kind.timestamp, kind.delay = json[kind[3]], text('%.17g', timestamp), text('%.17g', delay)
  kind.priority, kind.weight, kind.lifo = text('%.17g', priority), priority * 4294967296, opts.lifo
  kind.due = delay > 0 and timestamp + delay
  kind.isUrgent = delay <= 0 and priority > 0
end
for at = 1, #order, 2 do
  local kind, many = kinds[order[at]], tonumber(order[at + 1])
  expect(kind and many and many > 0 and many % 1 == 0, 'order of the jobs')
  ordered = ordered + many
  if kind.due then laterCount = laterCount + many end
  if kind.isUrgent then urgentCount = urgentCount + many end
end
expect(count > 0 and count <= 3000 and count == ordered, 'number of jobs')

local limit, isClosed = queueState(meta, active)
local number = call('INCRBY', counter, count) - count
local first, turn = number + 1, urgentCount > 0 and call('INCRBY', pc, urgentCount) - urgentCount
local behind, ahead, urgent, later, free = {}, {}, {}, {}, {}
if laterCount > 0 then
--@include delayedScore
  for _, kind in ipairs(kinds) do
    local due = kind.due
    if due and not free[due] then free[due] = delayedScore(delayed, due, 0) end
  end
end

local arg = 2
for at = 1, #order, 2 do
  local kind = kinds[order[at]]
  local name, opts, timestamp, delay, priority = kind[1], kind.opts, kind.timestamp, kind.delay, kind.priority
  local due, isUrgent, weight, queued = kind.due, kind.isUrgent, kind.weight, kind.lifo and ahead or behind
  for _ = 1, order[at + 1] do
    arg, number = arg + 1, number + 1
    local id = number .. ''
    call('HSET', prefix .. id, 'name', name, 'data', ARGV[arg], 'opts', opts, 'timestamp', timestamp,
      'delay', delay, 'priority', priority)
    call('XADD', events, '*', 'event', 'added', 'jobId', id, 'name', name)
    if due then
      local score = free[due]
      free[due] = math.min(score + 1, due * 4096 + 4095)
      later[#later + 1] = score
      later[#later + 1] = id
      call('XADD', events, '*', 'event', 'delayed', 'jobId', id, 'delay', due)
    else
      if isUrgent then
        turn = turn + 1
        urgent[#urgent + 1] = weight + turn % 4294967296
        urgent[#urgent + 1] = id
      else
        queued[#queued + 1] = id
      end
      call('XADD', events, '*', 'event', 'waiting', 'jobId', id)
    end
  end
end
call('XTRIM', events, 'MAXLEN', '~', limit)

if #behind > 0 then call('LPUSH', wait, unpack(behind)) end
if #ahead > 0 then call('RPUSH', wait, unpack(ahead)) end
if urgentCount > 0 then call('ZADD', prioritized, unpack(urgent)) end
if laterCount < count and not isClosed then call('ZADD', marker, '0', '0') end
if laterCount > 0 then
--@include delayMarker
  call('ZADD', delayed, unpack(later))
  delayMarker(marker, delayed)
end
return first
