-- takeFault · what makes the options of a take unusable; asked before anything is written
-- opts     table  token (text), lockDuration (ms), limiter {max, duration}, name
-- Returns  nil when all is well, else an error reply
-- Spec     protocol 03 1.3, 6.2
local function takeFault(opts)
  local token, name, lockMs = opts.token, opts.name, tonumber(opts.lockDuration)
  if type(token) ~= 'string' then
    return redis.error_reply('ERR the option token must be a text')
  end
  if token ~= '0' and not (lockMs and lockMs >= 1 and lockMs % 1 == 0) then
    return redis.error_reply('ERR the option lockDuration must be whole milliseconds above 0')
  end
  if name and type(name) ~= 'string' then
    return redis.error_reply('ERR the option name must be a text')
  end
  if opts.limiter and type(opts.limiter) ~= 'table' then
    return redis.error_reply('ERR the option limiter must be a map')
  end
end
