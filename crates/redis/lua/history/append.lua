-- Adds a flush to the log, unless it is there or was compacted before.
-- KEYS: last flushes, log. ARGV: instance, sequence number (8 bytes), key, flush, how many flushes the log may hold.
-- At most one write, so that an append-only file that is cut off anywhere repeats nothing.
local last = redis.call('HGET', KEYS[1], ARGV[1])
if last and #last >= 8 then
  -- Byte by byte, because comparing strings depends on the server's locale.
  local order = 0
  for at = 1, 8 do
    local known, new = string.byte(last, at), string.byte(ARGV[2], at)
    if order == 0 and known ~= new then order = known > new and 1 or -1 end
  end
  if order >= 0 then return 0 end
end
if redis.call('HEXISTS', KEYS[2], ARGV[3]) == 1 then return 0 end
if redis.call('HLEN', KEYS[2]) >= tonumber(ARGV[5]) then return -1 end
return redis.call('HSETNX', KEYS[2], ARGV[3], ARGV[4])
