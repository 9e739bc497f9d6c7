-- paginate-1 · a page of a set or of a hash
-- KEYS[1] key      set or hash  such as <prefix>:<queue>:<id>:dependencies or :processed
-- ARGV[1] first    integer  index of the first element wanted
-- ARGV[2] last     integer  index of the last; -1 is the end
-- ARGV[3] cursor   text     0 to begin, later as replied
-- ARGV[4] offset   integer  0 to begin, later as replied
-- ARGV[5] scans    integer  most scans of this call
-- ARGV[6] fetch    text     present: read the jobs the elements name, too
-- Reply   [cursor, offset, elements, number of all elements, jobs]; key absent: [0, 0, [], 0].
--         A set gives members, a hash [field, value]. Call again until the cursor is 0
-- Spec    protocol 04 3.7                       Frozen  manifest.toml
local key = KEYS[1]
local first, last, cursor = tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3]
local offset, scans, fetch = tonumber(ARGV[4]), tonumber(ARGV[5]), ARGV[6]
if not (first and last and offset and scans) then
  return redis.error_reply('paginate: ARGV[1], [2], [4] and [5] must be numbers')
end
if last == -1 then last = math.huge end
local call = redis.call

local kind = call('TYPE', key).ok
if kind == 'none' then return { 0, 0, {}, 0 } end
local scan, size, step = 'SSCAN', 'SCARD', 1
if kind == 'hash' then
  scan, size, step = 'HSCAN', 'HLEN', 2
elseif kind ~= 'set' then
  return redis.error_reply('paginate: KEYS[1] must be a set or a hash, not a ' .. kind)
end

local elements, jobs, wanted = {}, {}, last - first
repeat
  local found = call(scan, key, cursor, 'COUNT', '100')
  cursor, found, scans = found[1], found[2], scans - 1
  for i = 1, #found, step do
    if #elements > wanted then break end
    if offset >= first and offset <= last then
      elements[#elements + 1] = step == 1 and found[i] or { found[i], found[i + 1] }
      if fetch then jobs[#jobs + 1] = call('HGETALL', found[i]) end
    end
    offset = offset + 1
  end
until cursor == '0' or #elements > wanted or scans < 1
return { cursor, offset, elements, call(size, key), jobs }
