-- Makes a new edition, if it is based on the newest one and all of it has been noted.
-- KEYS: root, redo. ARGV: head of the root so far, name of the last part of the redo, how many parts, the new root.
if redis.call('GETRANGE', KEYS[1], 0, 16) ~= ARGV[1] then return false end
if redis.call('HEXISTS', KEYS[2], ARGV[2]) == 0 then return false end
if redis.call('HLEN', KEYS[2]) ~= tonumber(ARGV[3]) then return false end
redis.call('SET', KEYS[1], ARGV[4])
return 1
