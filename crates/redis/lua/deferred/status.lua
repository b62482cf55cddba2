-- Where a request is: its result, or how often it was tried and whether it is on its way.
-- KEYS: waiting, ended; ARGV: id
local result = redis.call('HGET', KEYS[2], ARGV[1])
if result then return { 2, result, '0', '0' } end
local row = read_row(KEYS[1], ARGV[1])
if not row then return { 0, '', '0', '0' } end
return { 1, '', row.attempts, row.sending }
