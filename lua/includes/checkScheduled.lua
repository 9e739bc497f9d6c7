-- checkScheduled · stops a malformed scheduler call before anything is written
-- opts     table   options of the job to be made, decoded
-- now      ms      number, or nil if it was none
-- every    number  or nil
-- offset   number  or nil if it was none
-- slot     text    the next slot, looked at without every
-- Raises   what is wrong; correct clients never see it
-- Spec     protocol 02 section 4; 01 section 13
local function checkScheduled(opts, now, every, offset, slot)
  local de, at = opts.de, every or tonumber(slot)
  local dedupId = type(de) == 'table' and type(de.id or '')
  -- NaN and the infinities differ from themselves by something that is not 0
  local wrong = not (now and now - now == 0) and 'now (ms)'
    or not (at and at > 0 and at - at == 0) and (every and 'every' or 'next slot') .. ' (ms above 0)'
    or not offset and 'offset (ms)'
    or not tonumber(opts.priority or 0) and 'option priority (number)'
    or de and dedupId ~= 'string' and dedupId ~= 'number' and 'option de (map with id)'
  if wrong then error('nothing scheduled, nothing written: wrong or missing ' .. wrong, 0) end
end
