-- Puts a new generation in force, if it is based on the newest one and its redo log is complete.
-- KEYS: manifest, redo log. ARGV: the generation it is based on, name of the last part of the redo log, how many parts,
-- the new manifest.
if redis.call('GETRANGE', KEYS[1], 0, 16) ~= ARGV[1] then return false end
if redis.call('HEXISTS', KEYS[2], ARGV[2]) == 0 then return false end
if redis.call('HLEN', KEYS[2]) ~= tonumber(ARGV[3]) then return false end
redis.call('SET', KEYS[1], ARGV[4])
return 1
