-- parentPlace · queue and id of a job's parent
-- jobKey     key   the child
-- parentKey  key   its parent
-- Returns    prefix with its colon; parent id
-- Why        an id may hold colons, so the key alone does not tell where the id begins;
--            the child's parent field does. Without it the last colon decides
-- Spec       protocol 03 S22 and 6.1 (15)
local function parentPlace(jobKey, parentKey)
  local known, parent = pcall(cjson.decode, redis.call('HGET', jobKey, 'parent') or '')
  if known and type(parent) == 'table' and type(parent.queueKey) == 'string' then
    local prefix = parent.queueKey .. ':'
    if parentKey:sub(1, #prefix) == prefix then return prefix, parentKey:sub(#prefix + 1) end
  end
  return parentKey:match('^(.*:)([^:]*)$')
end
