-- admitJob · an add with an id of its own or a deduplication id may end before a job is stored
-- args        table   ARGV[1] of the add scripts, decoded and checked
-- opts        table   job options, decoded and checked
-- optsJson    text    JSON of opts
-- data        text    JSON
-- id, jobKey          of the job to be
-- parentJson  text    or nil
-- completed   zset    <prefix>:<queue>:completed
-- delayed     zset    <prefix>:<queue>:delayed; nil where delayed owners are let be
-- events      stream  <prefix>:<queue>:events
-- limit       MAXLEN of the event log
-- Returns     nil: store it. Otherwise the reply of the script
-- Spec        protocol 02 section 2, steps 4 and 5
--@include delayMarker
local function admitJob(args, opts, optsJson, data, id, jobKey, parentJson, completed, delayed, events, limit)
  if args[2] ~= '' and redis.call('EXISTS', jobKey) == 1 then
--@include attachParent
    return attachParent(args, jobKey, id, parentJson, completed, events, limit)
  end
  if opts.de and opts.de.id then
--@include deduplicate
    return deduplicate(args, opts, optsJson, data, id, parentJson, delayed, events, limit)
  end
end
