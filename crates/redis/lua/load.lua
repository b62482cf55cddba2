-- Shares how loaded the nodes are. Twin: redis/src/calls/shared_load.rs.
--
-- KEYS  1: what the nodes said, as text: `node domain load last_seen_ms` a line
-- ARGV  1: the name of this node
--       2: after how many milliseconds what a node said is dropped
--       then this node's own: domain and load, each a word
-- Reply the other nodes' largest: domain, load, domain, load, …

local time = redis.call('TIME')
local now = time[1] * 1000 + (time[2] - time[2] % 1000) / 1000
local node, life = ARGV[1], tonumber(ARGV[2])
local kept, largest, order = {}, {}, {}
for i = 3, #ARGV - 1, 2 do
  kept[#kept + 1] = string.format('%s %s %s %.0f\n', node, ARGV[i], ARGV[i + 1], now)
end
for name, domain, load, seen in string.gmatch(redis.call('GET', KEYS[1]) or '', '(%S+) (%S+) ([%d.]+) (%d+)\n') do
  -- A node from the future was seen before the clock was set back.
  if name ~= node and math.abs(now - tonumber(seen)) < life and #kept < 10000 then
    kept[#kept + 1] = string.format('%s %s %s %s\n', name, domain, load, seen)
    if not largest[domain] then order[#order + 1] = domain end
    largest[domain] = math.max(largest[domain] or 0, tonumber(load))
  end
end
if #kept > 0 then redis.call('SET', KEYS[1], table.concat(kept), 'PX', life) end
local reply = {}
for _, domain in ipairs(order) do
  reply[#reply + 1] = domain
  reply[#reply + 1] = string.format('%.3f', largest[domain])
end
return reply
