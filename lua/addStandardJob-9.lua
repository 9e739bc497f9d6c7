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
local wait, _, meta, counter, completed, delayed, active, events, marker = unpack(KEYS)
--@include addJob

call(opts.lifo and 'RPUSH' or 'LPUSH', wait, id)
--@include wakeUnlessClosed
call('XADD', events, 'MAXLEN', '~', limit, '*', 'event', 'waiting', 'jobId', id)
if dependencies then call('SADD', dependencies, jobKey) end
return id
