-- Decides a batch of requests with a single charge each, one after the other:
-- what charge_sets.lua does, without its tables. Most requests are such.
-- `decide` is their algorithm.
--
-- KEYS  one for each request; a key may come twice
-- ARGV  1: now in microseconds, or empty for the server's own clock
--       then for each key what is asked of it
-- Reply now, and for each key the state before its request, or false: the
--       caller takes the same steps to know the details. FOREIGN where nothing
--       was done because the state is not ours, ELSEWHERE where nothing was done
--       because it is not here

local now = time_of(ARGV[1])
local reply = { now }
for i = 1, #KEYS do
  local key = KEYS[i]
  local before = read_state(key)
  if type(before) ~= 'number' then
    local is_ours, _, text, deadline, lives_on = pcall(decide, before or nil, ask_of(i, now))
    if is_ours then write_state(key, before, text, deadline, now, lives_on) else before = FOREIGN end
  end
  reply[i + 1] = before
end
return reply
