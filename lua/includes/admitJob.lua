-- admitJob · gives a new job its id, unless the add ends here
-- args        table   ARGV[1] of the add scripts, decoded and checked
-- opts        table   job options, decoded and checked
-- optsJson    text    JSON of opts
-- data        text    JSON
-- parentJson  text    or nil
-- counter     string  <prefix>:<queue>:id; counts every add, also those that end here
-- completed   zset    <prefix>:<queue>:completed
-- delayed     zset    <prefix>:<queue>:delayed; nil where delayed owners are let be
-- events      stream  <prefix>:<queue>:events
-- limit       MAXLEN of the event log
-- Returns     id, key of the job to store; or nil, nil, reply of the script
-- Use         include it after all the pieces the script itself calls: what is named first
--             in here is built only for the adds that need it, and seen only by them
-- Spec        protocol 02 section 2, steps 2, 4 and 5
local function admitJob(args, opts, optsJson, data, parentJson, counter, completed, delayed, events, limit)
  local id, de = args[2], opts.de
  local number = redis.call('INCR', counter)
  if id == '' then id = number .. '' end
  local jobKey = args[1] .. id
  local isTaken = args[2] ~= '' and redis.call('EXISTS', jobKey) == 1
  if isTaken or de and de.id then
--@include delayMarker
    if isTaken then
--@include attachParent
      return nil, nil, attachParent(args, jobKey, id, parentJson, completed, events, limit)
    end
--@include deduplicate
    local owner = deduplicate(args, opts, optsJson, data, id, parentJson, delayed, events, limit)
    if owner then return nil, nil, owner end
  end
  return id, jobKey
end
