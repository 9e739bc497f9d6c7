-- checkJob · stops a malformed add before anything is written
-- args     table   ARGV[1] of the add scripts, decoded
-- opts     table   job options, decoded
-- Raises   what is wrong with which part; correct clients never see it
-- Spec     protocol 02 section 2; 01 section 13
local function checkJob(args, opts)
  local isText = { string = true, number = true }
  local isTextOrNil = { string = true, number = true, ['nil'] = true }
  local timestamp, de = tonumber(args[4]), opts.de
  local wrong = type(args[1]) ~= 'string' and 'key prefix (text)'
    or not isText[type(args[2])] and 'job id (text, empty for the next number)'
    or not isText[type(args[3])] and 'job name (text)'
    -- NaN and the infinities differ from themselves by something that is not 0
    or not (timestamp and timestamp - timestamp == 0) and 'timestamp (ms)'
    or not (isTextOrNil[type(args[5])] and isTextOrNil[type(args[6])]) and 'parent key (text)'
    or args[7] and type(args[7]) ~= 'table' and 'parent (map)'
    or not isTextOrNil[type(args[8])] and 'repeat job key (text)'
    or not tonumber(opts.delay or 0) and 'option delay (ms)'
    or not tonumber(opts.priority or 0) and 'option priority (number)'
  if de and not wrong then
    local ttl = tonumber(type(de) == 'table' and de.ttl or 0)
    wrong = (type(de) ~= 'table' or not isTextOrNil[type(de.id)]) and 'option de (map with id)'
      or de.id and not isText[type(args[9])] and 'deduplication key (text)'
      or not (ttl and ttl % 1 == 0) and 'option de.ttl (whole ms)'
  end
  if wrong then error('job not added, nothing written: wrong or missing ' .. wrong, 0) end
end
