-- parentPolicy · what a child's parent field says
-- json     text   the field, as it is stored
-- Returns  table  id, queueKey and at most one of fpof, cpof, idof, rdof; nil where it says nothing
--          that can be read
-- Why      another client may have written anything; a job must be able to end all the same
-- Spec     protocol 01 section 3; 03 S19
local function parentPolicy(json)
  local known, parent = pcall(cjson.decode, json)
  if not known or type(parent) ~= 'table' or type(parent.queueKey) ~= 'string' then return end
  if type(parent.id) == 'string' or type(parent.id) == 'number' then return parent end
end
