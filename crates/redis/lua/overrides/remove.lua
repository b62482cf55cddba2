-- Removes a row if it is still the one that was read, and notes it in the log first if there is a note.
-- KEYS: rows, audit, version; ARGV: name, row, note, most of the log.
if redis.call('HGET', KEYS[1], ARGV[1]) ~= ARGV[2] then
  return 0
end
if ARGV[3] ~= '' then
  redis.call('LPUSH', KEYS[2], ARGV[3])
  redis.call('LTRIM', KEYS[2], 0, tonumber(ARGV[4]) - 1)
end
redis.call('HDEL', KEYS[1], ARGV[1])
redis.call('INCR', KEYS[3])
return 1
