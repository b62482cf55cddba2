-- An attempt failed, and the request waits again, if it is this node's.
-- KEYS: waiting, lease; ARGV: id, node, attempts, not before
if redis.call('GET', KEYS[2]) ~= ARGV[2] then return 0 end
local row = read_row(KEYS[1], ARGV[1])
if not row then return 0 end
row.attempts, row.not_before, row.sending = ARGV[3], ARGV[4], 0
write_row(KEYS[1], ARGV[1], row)
return 1
