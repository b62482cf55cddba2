-- A node sends no more: whoever asks next may.
-- KEYS: lease; ARGV: node
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1])
