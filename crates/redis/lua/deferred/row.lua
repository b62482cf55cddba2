-- What is known of a request that waits: its entry in the stream, its bytes, how often it was tried,
-- before when it is not tried again, and whether it is on its way.
local function read_row(waiting, id)
  local row = redis.call('HGET', waiting, id)
  if not row then return nil end
  local entry, size, attempts, not_before, sending = row:match('^(%S+) (%S+) (%S+) (%S+) (%S+)$')
  return { entry = entry, size = size, attempts = attempts, not_before = not_before, sending = sending }
end

local function write_row(waiting, id, row)
  local text = row.entry .. ' ' .. row.size .. ' ' .. row.attempts .. ' ' .. row.not_before .. ' ' .. row.sending
  redis.call('HSET', waiting, id, text)
end
