-- Decides the one charge of a request, which most requests have: what check.lua
-- does for several, without the tables. `decide` is the algorithm.

local now = time_of(ARGV[1])
local key = KEYS[1]
local before = read_state(key)
local fits, text, deadline = decide(before or nil, read_ask(4, now))
if now > (tonumber(ARGV[3]) or now) then text = nil end
write_state(key, before, text, deadline, now)
local mode = ARGV[5]
local denied = not fits and (mode == 'enforce' or mode == 'quota' and ARGV[2] ~= '1')
return { now, denied and 1 or 0, before }
