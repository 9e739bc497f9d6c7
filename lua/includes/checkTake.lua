-- checkTake · stops a take with unusable options before anything is written; runs in place
-- Needs    opts   table  token (text), lockDuration (ms), limiter {max, duration}, name
-- Raises   what is wrong; correct clients never see it
-- Spec     protocol 03 1.3, 6.2
local lockMs = tonumber(opts.lockDuration)
if type(opts.token) ~= 'string' then error('no job taken: option token must be a text', 0) end
if not (lockMs and lockMs >= 1 and lockMs % 1 == 0) and opts.token ~= '0' then
  error('no job taken: option lockDuration must be whole ms above 0', 0)
end
if opts.name and type(opts.name) ~= 'string' then error('no job taken: option name must be a text', 0) end
if opts.limiter and type(opts.limiter) ~= 'table' then error('no job taken: option limiter must be a map', 0) end
