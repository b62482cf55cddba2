-- Reads a part of a hash, if the generation is the expected one.
-- KEYS: manifest, the hash. ARGV: the generation, the cursor, about how many fields.
if redis.call('GETRANGE', KEYS[1], 0, 16) ~= ARGV[1] then return false end
return redis.call('HSCAN', KEYS[2], ARGV[2], 'COUNT', ARGV[3])
