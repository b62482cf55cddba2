-- Counts the nodes that share this store. Twin: redis/src/calls/heartbeat.rs.
--
-- KEYS  1: the list of nodes, as text: `name=last seen in milliseconds;…`
-- ARGV  1: the name of this node
--       2: after how many milliseconds without a heartbeat a node is gone
-- Reply how many nodes are alive, this one included, and of the first hundred of them each name and
--       how many milliseconds ago it was seen

local time = redis.call('TIME')
local now = time[1] * 1000 + (time[2] - time[2] % 1000) / 1000
local life = tonumber(ARGV[2])
local list = redis.call('GET', KEYS[1]) or ''
local nodes, count = { string.format('%s=%.0f;', ARGV[1], now) }, 1
local heard = { ARGV[1], 0 }
for name, seen in string.gmatch(list, '([^=;]+)=(%d+);') do
  -- A node from the future was seen before the clock was set back.
  if name ~= ARGV[1] and math.abs(now - tonumber(seen)) < life and count < 10000 then
    count = count + 1
    nodes[count] = string.format('%s=%s;', name, seen)
    if count <= 100 then
      heard[2 * count - 1], heard[2 * count] = name, math.max(0, now - tonumber(seen))
    end
  end
end
redis.call('SET', KEYS[1], table.concat(nodes), 'PX', life)
return { count, heard }
