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
local meta, counter, _, waitingChildren, completed, events = unpack(KEYS)
local delayed = nil
--@include addJob

call('ZADD', waitingChildren, timestamp, id)
call('XADD', events, 'MAXLEN', '~', limit, '*', 'event', 'waiting-children', 'jobId', id)
if dependencies then call('SADD', dependencies, jobKey) end
return id
