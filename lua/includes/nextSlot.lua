-- nextSlot · when a scheduler with a fixed interval runs next
-- previous   ms      its slot so far, or nil: it starts, or starts anew
-- every      number  ms between slots
-- now        number  ms
-- offset     number  ms into the interval; 0 if none was asked for
-- startDate  ms      or nil
-- Returns    slot; offset to remember
-- Spec       protocol 02 S15
local function nextSlot(previous, every, now, offset, startDate)
  -- First moment after now that lies offset into an interval counted from 1970.
  local function onGrid()
    local slot = math.floor(now / every) * every + offset
    if slot <= now then slot = slot + every end
    return slot
  end
  local slot = now
  if previous then
    slot = previous + every
    if slot < now then slot = onGrid() end
  elseif startDate then
    slot = math.max(tonumber(startDate), now)
  elseif offset > 0 then
    slot = onGrid()
  end
  if offset == 0 then offset = slot - math.floor(slot / every) * every end
  return math.floor(slot), math.floor(offset)
end
