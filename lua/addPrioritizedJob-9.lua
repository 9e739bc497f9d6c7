-- addPrioritizedJob-9 · adds a job that runs after the waiting ones, by priority
-- KEYS[1] marker       zset     <prefix>:<queue>:marker
-- KEYS[2] meta         hash     <prefix>:<queue>:meta
-- KEYS[3] id           string   <prefix>:<queue>:id, counter
-- KEYS[4] prioritized  zset     <prefix>:<queue>:prioritized
-- KEYS[5] delayed      zset     <prefix>:<queue>:delayed
-- KEYS[6] completed    zset     <prefix>:<queue>:completed
-- KEYS[7] active       list     <prefix>:<queue>:active
-- KEYS[8] events       stream   <prefix>:<queue>:events
-- KEYS[9] pc           string   <prefix>:<queue>:pc, counter
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
local marker, meta, counter, prioritized, delayed, completed, active, events, pc = unpack(KEYS)
--@include pushPrioritized
--@include addJob

pushPrioritized(prioritized, marker, pc, id, opts.priority or 0, true)
--@include wakeUnlessClosed
call('XADD', events, 'MAXLEN', '~', limit, '*', 'event', 'waiting', 'jobId', id)
if dependencies then call('SADD', dependencies, jobKey) end
return id
