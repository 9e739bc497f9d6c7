-- inChunks · one command over any number of members
-- command  text   such as ZREM or RPUSH
-- key      key
-- members  array  may be empty
-- Why      the server refuses to unpack more than about 8000 values
local function inChunks(command, key, members)
  for first = 1, #members, 7000 do
    redis.call(command, key, unpack(members, first, math.min(first + 6999, #members)))
  end
end
