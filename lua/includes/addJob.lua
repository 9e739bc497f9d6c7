-- addJob · what the add scripts have in common; runs in place, for a plain add is hardly more than its commands
-- Needs    meta, counter, completed, events: keys of the queue; delayed, nil where delayed owners
--          of a deduplication id are let be; ARGV as in the headers
-- Gives    call, opts, id, jobKey, timestamp, dependencies, limit (MAXLEN of the event log); the hash is stored
-- Ends     the script with its reply where no job is added; with an error before anything is written
-- Use      functions of a script's own are included above it: what is named in here is seen in here only
-- Event    added {jobId, name}, untrimmed
-- Writes   the default limit of 10000 where no client has set one
-- Spec     protocol 02 section 2, steps 1 to 6
local call, packed, data, packedOpts = redis.call, unpack(ARGV)
local opts, size = cmsgpack.unpack(packedOpts), string.byte(packed) - 144
local _, prefix, custom, name, timestamp, parentKey, dependencies, parent, rjk, dedupKey, defer
if size > 0 and size < 11 then
  -- A short array has one byte in front of its elements. Passing over that saves the table.
  _, prefix, custom, name, timestamp, parentKey, dependencies, parent, rjk, dedupKey, defer =
    cmsgpack.unpack_limit(packed, size, 1)
else
  prefix, custom, name, timestamp, parentKey, dependencies, parent, rjk, dedupKey, defer =
    unpack(cmsgpack.unpack(packed), 1, 10)
end
local delay, priority, de, args = opts.delay, opts.priority, opts.de, nil
-- Of a prefix that is no text, and a time that is no number, Lua itself complains here.
local jobKey = prefix .. custom
if custom ~= '' or parentKey or dependencies or rjk or de
    or type(name) ~= 'string' or timestamp - timestamp ~= 0
    or delay and type(delay) ~= 'number' or priority and type(priority) ~= 'number' then
--@include checkJob
  args = { prefix, custom, name, timestamp, parentKey, dependencies, parent, rjk, dedupKey, defer }
  checkJob(args, opts)
end
local optsJson, parentJson = cjson.encode(opts), parentKey and cjson.encode(parent)
if parentKey and call('EXISTS', parentKey) == 0 then return -5 end

local limit = call('HGET', meta, 'opts.maxLenEvents')
if not limit then
  limit = '10000'
  call('HSET', meta, 'opts.maxLenEvents', limit)
end
local id, number = custom, call('INCR', counter)
if id == '' then
  -- Where a long has 32 bits, %d takes no more.
  id = number < 2147483648 and string.format('%d', number) or number .. ''
  jobKey = prefix .. id
end
if custom ~= '' or de and de.id then
--@include admitJob
  local reply = admitJob(args, opts, optsJson, data, id, jobKey, parentJson, completed, delayed, events, limit)
  if reply then return reply end
end
--@include storeJob
