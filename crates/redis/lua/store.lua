-- The one file that talks to Redis: the clock, one GET and at most one SET or DEL a key.

local call, call_or_error = redis.call, redis.pcall

-- In a cluster a call may be about keys of several slots of this server. Such keys
-- cannot be declared: they are the last arguments, before their number.
local KEYS, ARGC = KEYS, #ARGV
local IS_DECLARED = #KEYS > 0
local IS_SERVERS_CLOCK = ARGV[1] == ''
if not IS_DECLARED then
  local count = tonumber(ARGV[ARGC])
  ARGC = ARGC - count - 1
  KEYS = { unpack(ARGV, ARGC + 1, ARGC + count) }
end

-- A caller with a clock of its own may be slower than the server, whose keys
-- must outlive it. A state past its deadline equals none, so that it may stay.
local CALLERS_LIFE_MS = 3600000
-- The reply in place of a state that no script of ours has written.
local FOREIGN = 0
-- The reply in place of a state that cannot be read here, such as one of a slot that
-- has moved. Nothing was done for its request, which is sent again with its keys declared.
local ELSEWHERE = 1

-- The caller's time if it brings one, else the server's.
local function time_of(brought)
  local now = tonumber(brought)
  if not now then
    local time = call('TIME')
    now = time[1] * 1000000 + time[2]
  end
  return min(now, NOW_MAX)
end

-- The state, false if there is none, or a number, FOREIGN or ELSEWHERE: other
-- requests of the batch must not suffer for it.
local function read_state(key)
  local state = call_or_error('GET', key)
  if type(state) ~= 'table' then return state end
  if string.find(state.err, 'WRONGTYPE', 1, true) then return FOREIGN end
  if not IS_DECLARED then return ELSEWHERE end
  -- Not the key's fault: again, so that the caller gets the server's own error.
  return call('GET', key)
end

-- Keeps, removes or replaces what was `before`. Where that lives as long, the key's
-- time to live is left alone, which spares the server a search in its table of those.
local function write_state(key, before, text, deadline, now, lives_on)
  if text and lives_on and IS_SERVERS_CLOCK then
    call('SET', key, text, 'KEEPTTL')
  elseif text then
    local life_ms = quotient_ceil(max(deadline - now, 0), 1000)
    local least_ms = IS_SERVERS_CLOCK and 1 or CALLERS_LIFE_MS
    call('SET', key, text, 'PX', format(NUMBER, max(life_ms, least_ms)))
  elseif text == false and before then
    call('DEL', key)
  end
end

-- What ARGV[i + 1] asks of key i. Many requests ask the same, which is read once.
local asks = {}
local function ask_of(i, now)
  local text = ARGV[i + 1]
  local ask = asks[text]
  if not ask then
    ask = read_ask(text, now)
    asks[text] = ask
  end
  return ask
end
