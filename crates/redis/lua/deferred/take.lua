-- Gives out requests to the one node that sends them: first those that another node was given, then
-- new ones. One node has the lease at a time, so that requests of a key are sent in their order.
-- KEYS: stream, waiting, lease, ended, ended_at, ended_bytes
-- ARGV: node, lease in ms, group, how many, cursor of what is claimed ('' for nothing), keep results for ms,
-- most results, most bytes of them
local node, group, most, cursor = ARGV[1], ARGV[3], ARGV[4], ARGV[5]
local holder = redis.call('GET', KEYS[3])
if holder and holder ~= node then return { 0, '', {} } end
redis.call('SET', KEYS[3], node, 'PX', ARGV[2])
sweep(KEYS[4], KEYS[5], KEYS[6], ARGV[6], ARGV[7], ARGV[8])
-- An error says that there is the group.
redis.pcall('XGROUP', 'CREATE', KEYS[1], group, '0', 'MKSTREAM')
if not holder then cursor = '0-0' end
local entries, next_cursor = {}, ''
if cursor ~= '' then
  local claimed = redis.call('XAUTOCLAIM', KEYS[1], group, node, 0, cursor, 'COUNT', most)
  next_cursor, entries = claimed[1], claimed[2]
  if next_cursor == '0-0' then
    next_cursor = ''
    -- Nodes that are gone.
    for _, consumer in ipairs(redis.call('XINFO', 'CONSUMERS', KEYS[1], group)) do
      local name, pending
      for at = 1, #consumer, 2 do
        if consumer[at] == 'name' then name = consumer[at + 1] end
        if consumer[at] == 'pending' then pending = consumer[at + 1] end
      end
      if name ~= node and pending == 0 then redis.call('XGROUP', 'DELCONSUMER', KEYS[1], group, name) end
    end
  end
end
if next_cursor == '' and #entries == 0 then
  local read = redis.call('XREADGROUP', 'GROUP', group, node, 'COUNT', most, 'STREAMS', KEYS[1], '>')
  if read and read[1] then entries = read[1][2] end
end
local taken = {}
for _, entry in ipairs(entries) do
  -- Some versions give out an entry that was deleted, without its fields.
  local fields = entry and entry[2]
  if fields then
    local id, request = fields[2], fields[4]
    local row = read_row(KEYS[2], id)
    if not row and redis.call('HEXISTS', KEYS[4], id) == 1 then
      redis.call('XACK', KEYS[1], group, entry[1])
      redis.call('XDEL', KEYS[1], entry[1])
    else
      row = row or { entry = entry[1], size = #request, attempts = 0, not_before = 0 }
      row.sending = 0
      write_row(KEYS[2], id, row)
      taken[#taken + 1] = { request, tostring(row.attempts), tostring(row.not_before) }
    end
  end
end
return { 1, next_cursor, taken }
