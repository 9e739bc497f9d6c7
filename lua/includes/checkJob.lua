-- checkJob · stops a malformed add before anything is written
-- args     table   ARGV[1] of the add scripts, decoded
-- opts     table   job options, decoded
-- Raises   what is wrong with which part; correct clients never see it
-- Spec     protocol 02 section 2; 01 section 13
local function checkJob(args, opts)
  local id, name, timestamp = type(args[2]), type(args[3]), tonumber(args[4])
  local delay, priority, de = opts.delay, opts.priority, opts.de
  local wrong = type(args[1]) ~= 'string' and 'key prefix (text)'
    or id ~= 'string' and id ~= 'number' and 'job id (text, empty for the next number)'
    or name ~= 'string' and name ~= 'number' and 'job name (text)'
    -- NaN and the infinities differ from themselves by something that is not 0
    or not (timestamp and timestamp - timestamp == 0) and 'timestamp (ms)'
    or delay and not tonumber(delay) and 'option delay (ms)'
    or priority and not tonumber(priority) and 'option priority (number)'
  if not wrong and (de or args[5] or args[6] or args[8]) then
    local function isText(value)
      return type(value) == 'string' or type(value) == 'number'
    end
    local parent = args[5] and args[7]
    wrong = args[5] and not isText(args[5]) and 'parent key (text)'
      or args[6] and not isText(args[6]) and 'key of the parent\'s dependencies (text)'
      or args[8] and not isText(args[8]) and 'repeat job key (text)'
      or parent and not (type(parent) == 'table' and isText(parent.queueKey) and isText(parent.id))
        and 'parent (map with id, queueKey)'
    if de and not wrong then
      local ttl = type(de) == 'table' and tonumber(de.ttl or 0)
      wrong = not (ttl and ttl % 1 == 0) and 'option de (map with id, ttl in whole ms)'
        or de.id and not (isText(de.id) and isText(args[9])) and 'deduplication id or key (text)'
    end
  end
  if wrong then error('job not added, nothing written: wrong or missing ' .. wrong, 0) end
end
