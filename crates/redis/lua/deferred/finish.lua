-- A request is done with, whoever sent it; the result is there before the request goes.
-- KEYS: stream, waiting, bytes, ended, ended_at, ended_bytes
-- ARGV: id, result, group, keep results for ms, most results, most bytes of them
local row = read_row(KEYS[2], ARGV[1])
if not row then return 0 end
local now = sweep(KEYS[4], KEYS[5], KEYS[6], ARGV[4], ARGV[5], ARGV[6])
redis.call('HSET', KEYS[4], ARGV[1], ARGV[2])
redis.call('ZADD', KEYS[5], string.format('%.0f', now), ARGV[1])
redis.call('INCRBY', KEYS[6], #ARGV[2])
redis.call('HDEL', KEYS[2], ARGV[1])
redis.call('DECRBY', KEYS[3], row.size)
redis.call('XACK', KEYS[1], ARGV[3], row.entry)
redis.call('XDEL', KEYS[1], row.entry)
return 1
