-- Reads fields of hashes, if the generation is the expected one.
-- KEYS: manifest, a hash for each field. ARGV: the generation, the longest value that is wanted, the fields.
-- A value that is longer comes back empty.
if redis.call('GETRANGE', KEYS[1], 0, 16) ~= ARGV[1] then return false end
local values = {}
for at = 2, #KEYS do
  if redis.call('HSTRLEN', KEYS[at], ARGV[at + 1]) > tonumber(ARGV[2]) then
    values[at - 1] = ''
  else
    values[at - 1] = redis.call('HGET', KEYS[at], ARGV[at + 1])
  end
end
return values
