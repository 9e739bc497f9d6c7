-- checkJob · stops a malformed add before anything is written
-- args     table   ARGV[1] of the add scripts, decoded
-- opts     table   job options, decoded
-- Raises   what is wrong with which part; correct clients never see it
-- Spec     protocol 02 section 2; 01 section 13
local function checkJob(args, opts)
  local function isText(value)
    local kind = type(value)
    return kind == 'string' or kind == 'number'
  end
  local timestamp, delay, priority, de = tonumber(args[4]), opts.delay, opts.priority, opts.de
  local wrong = type(args[1]) ~= 'string' and 'key prefix (text)'
    or not isText(args[2]) and 'job id (text, empty for the next number)'
    or not isText(args[3]) and 'job name (text)'
    -- NaN and the infinities differ from themselves by something that is not 0
    or not (timestamp and timestamp - timestamp == 0) and 'timestamp (ms)'
    or args[5] and not (isText(args[5]) and type(args[7] or {}) == 'table') and 'parent key (text) or parent (map)'
    or args[6] and not isText(args[6]) and 'key of the parent\'s dependencies (text)'
    or args[8] and not isText(args[8]) and 'repeat job key (text)'
    or delay and not tonumber(delay) and 'option delay (ms)'
    or priority and not tonumber(priority) and 'option priority (number)'
  if de and not wrong then
    local ttl = type(de) == 'table' and tonumber(de.ttl or 0)
    wrong = not (ttl and ttl % 1 == 0) and 'option de (map with id, ttl in whole ms)'
      or de.id and not (isText(de.id) and isText(args[9])) and 'deduplication id or key (text)'
  end
  if wrong then error('job not added, nothing written: wrong or missing ' .. wrong, 0) end
end
