-- addStandardJob-9 · adds a job that waits its turn
-- KEYS[1] wait         list     <prefix>:<queue>:wait
-- KEYS[2] paused       list     unused
-- KEYS[3] meta         hash     <prefix>:<queue>:meta
-- KEYS[4] id           string   <prefix>:<queue>:id, counter
-- KEYS[5] completed    zset     <prefix>:<queue>:completed
-- KEYS[6] delayed      zset     <prefix>:<queue>:delayed
-- KEYS[7] active       list     <prefix>:<queue>:active
-- KEYS[8] events       stream   <prefix>:<queue>:events
-- KEYS[9] marker       zset     <prefix>:<queue>:marker
-- ARGV[1] job          msgpack  array: 1 key prefix, 2 id or "", 3 name, 4 timestamp ms, 5 parent key,
--                               6 <parent key>:dependencies, 7 parent map, 8 scheduler id,
--                               9 deduplication key, 10 true for a node of a flow; 5 to 10 may be nil
-- ARGV[2] data         text     JSON, stored untouched
-- ARGV[3] opts         msgpack  map of job options, wire names
-- Reply   id text      of the job added; of the job that was there; of the owner of its deduplication id
--         -5           parent absent; nothing written
--         -7           id belongs to a job of another parent
-- Events  added {jobId, name}, waiting {jobId}; otherwise duplicated, deduplicated, removed, delayed
-- Spec    protocol 02 section 2                       Frozen  manifest.toml
local wait, meta, counter, completed, delayed = KEYS[1], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local active, events, marker = KEYS[7], KEYS[8], KEYS[9]
local args, data, opts = cmsgpack.unpack(ARGV[1]), ARGV[2], cmsgpack.unpack(ARGV[3])

--@include checkJob
--@include queueState
--@include storeJob
--@include pushWait
--@include admitJob

checkJob(args, opts)
local optsJson = cjson.encode(opts)
local name, timestamp, parentKey, dependencies = args[3], args[4], args[5], args[6]
local parentJson = parentKey and cjson.encode(args[7])
if parentKey and redis.call('EXISTS', parentKey) == 0 then return -5 end

local limit, isClosed = queueState(meta, active)
local id, jobKey, reply = admitJob(args, opts, optsJson, data, parentJson, counter, completed, delayed, events, limit)
if reply then return reply end

storeJob(jobKey, id, name, data, optsJson, opts, timestamp, parentKey, parentJson, args[8], events)
pushWait(opts.lifo and 'RPUSH' or 'LPUSH', wait, marker, id, isClosed)
redis.call('XADD', events, 'MAXLEN', '~', limit, '*', 'event', 'waiting', 'jobId', id)
if dependencies then redis.call('SADD', dependencies, jobKey) end
return id
