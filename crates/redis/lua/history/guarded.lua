-- Runs one command on a key, if the generation is the expected one.
-- KEYS: manifest, the key. ARGV: the generation, the command, its further arguments.
if redis.call('GETRANGE', KEYS[1], 0, 16) ~= ARGV[1] then return false end
redis.call(ARGV[2], KEYS[2], unpack(ARGV, 3))
return 1
