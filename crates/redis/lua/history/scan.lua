-- Reads a piece of a hash, if the edition is the expected one.
-- KEYS: root, the hash. ARGV: head of the root, the cursor, roughly how many fields.
if redis.call('GETRANGE', KEYS[1], 0, 16) ~= ARGV[1] then return false end
return redis.call('HSCAN', KEYS[2], ARGV[2], 'COUNT', ARGV[3])
