-- addDelayedJob-6 · adds a job that is due later
-- KEYS[1] marker       zset     <prefix>:<queue>:marker
-- KEYS[2] meta         hash     <prefix>:<queue>:meta
-- KEYS[3] id           string   <prefix>:<queue>:id, counter
-- KEYS[4] delayed      zset     <prefix>:<queue>:delayed
-- KEYS[5] completed    zset     <prefix>:<queue>:completed
-- KEYS[6] events       stream   <prefix>:<queue>:events
-- ARGV[1] job          msgpack  array: 1 key prefix, 2 id or "", 3 name, 4 timestamp ms, 5 parent key,
--                               6 <parent key>:dependencies, 7 parent map, 8 scheduler id,
--                               9 deduplication key, 10 true for a node of a flow; 5 to 10 may be nil
-- ARGV[2] data         text     JSON, stored untouched
-- ARGV[3] opts         msgpack  map of job options, wire names
-- Reply   id text      of the job added; of the job that was there; of the owner of its deduplication id
--         -5           parent absent; nothing written
--         -7           id belongs to a job of another parent
-- Events  added {jobId, name}, delayed {jobId, delay = ms when due}; otherwise duplicated, deduplicated, removed
-- Spec    protocol 02 section 2                       Frozen  manifest.toml
local marker, meta, counter, delayed, completed, events = unpack(KEYS)
--@include delayJob
--@include addJob

delayJob(delayed, marker, events, id, tonumber(timestamp), tonumber(opts.delay) or 0, limit)
if dependencies then call('SADD', dependencies, jobKey) end
return id
