-- A request is about to be sent, if this node may and it waits.
-- KEYS: waiting, lease; ARGV: id, node
if redis.call('GET', KEYS[2]) ~= ARGV[2] then return 0 end
local row = read_row(KEYS[1], ARGV[1])
if not row then return 0 end
row.sending = 1
write_row(KEYS[1], ARGV[1], row)
return 1
