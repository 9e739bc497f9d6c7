-- addParentJob-6 · adds a job that waits for its children
-- KEYS[1] meta              hash     <prefix>:<queue>:meta
-- KEYS[2] id                string   <prefix>:<queue>:id, counter
-- KEYS[3] delayed           zset     unused: a delayed owner of the deduplication id stays
-- KEYS[4] waiting-children  zset     <prefix>:<queue>:waiting-children
-- KEYS[5] completed         zset     <prefix>:<queue>:completed
-- KEYS[6] events            stream   <prefix>:<queue>:events
-- ARGV[1] job          msgpack  array: 1 key prefix, 2 id or "", 3 name, 4 timestamp ms, 5 parent key,
--                               6 <parent key>:dependencies, 7 parent map, 8 scheduler id,
--                               9 deduplication key, 10 true for a node of a flow; 5 to 10 may be nil
-- ARGV[2] data         text     JSON, stored untouched
-- ARGV[3] opts         msgpack  map of job options, wire names
-- Reply   id text      of the job added; of the job that was there; of the owner of its deduplication id
--         -5           parent absent; nothing written
--         -7           id belongs to a job of another parent
-- Events  added {jobId, name}, waiting-children {jobId}; otherwise duplicated, deduplicated
-- Spec    protocol 02 section 2                       Frozen  manifest.toml
local events = KEYS[6]
local args, data, opts = cmsgpack.unpack(ARGV[1]), ARGV[2], cmsgpack.unpack(ARGV[3])

--@include checkJob
--@include maxEvents
--@include storeJob
--@include admitJob

checkJob(args, opts)
local optsJson = cjson.encode(opts)
local parentKey = args[5]
local parentJson = parentKey and cjson.encode(args[7])
if parentKey and redis.call('EXISTS', parentKey) == 0 then return -5 end

local limit = maxEvents(KEYS[1])
local id, jobKey, reply = admitJob(args, opts, optsJson, data, parentJson, KEYS[2], KEYS[5], nil, events, limit)
if reply then return reply end

storeJob(jobKey, id, args[3], data, optsJson, opts, args[4], parentKey, parentJson, args[8], events)
redis.call('ZADD', KEYS[4], args[4], id)
redis.call('XADD', events, 'MAXLEN', '~', limit, '*', 'event', 'waiting-children', 'jobId', id)
if args[6] then redis.call('SADD', args[6], jobKey) end
return id
