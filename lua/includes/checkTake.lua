-- checkTake · stops a take with unusable options before anything is written
-- opts     table  token (text), lockDuration (ms), limiter {max, duration}, name
-- Raises   what is wrong; correct clients never see it
-- Spec     protocol 03 1.3, 6.2
local function checkTake(opts)
  local token, name, limiter, lockMs = opts.token, opts.name, opts.limiter, tonumber(opts.lockDuration)
  if type(token) ~= 'string' then error('no job taken: option token must be a text', 0) end
  if not (lockMs and lockMs >= 1 and lockMs % 1 == 0) and token ~= '0' then
    error('no job taken: option lockDuration must be whole ms above 0', 0)
  end
  if name and type(name) ~= 'string' then error('no job taken: option name must be a text', 0) end
  if limiter and type(limiter) ~= 'table' then error('no job taken: option limiter must be a map', 0) end
end
