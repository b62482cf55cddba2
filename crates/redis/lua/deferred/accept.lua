-- Takes a request in, unless there is no room.
-- KEYS: stream, waiting, bytes; ARGV: id, request, most requests, most bytes.
local size = #ARGV[2]
local requests = redis.call('HLEN', KEYS[2])
-- Should the sum be wrong, it is right again once nothing waits.
if requests == 0 then redis.call('SET', KEYS[3], 0) end
local bytes = tonumber(redis.call('GET', KEYS[3]) or '0')
if requests >= tonumber(ARGV[3]) or bytes + size > tonumber(ARGV[4]) then return 0 end
local entry = redis.call('XADD', KEYS[1], '*', 'id', ARGV[1], 'request', ARGV[2])
redis.call('HSET', KEYS[2], ARGV[1], entry .. ' ' .. size .. ' 0 0 0')
redis.call('INCRBY', KEYS[3], size)
return 1
