-- What all algorithms share. Twin: algorithm.rs.
--
-- ask: operation, counts_rejected, cost, window, hard, now, and the parameters
-- of the algorithm. An algorithm takes (state, ask) and returns
--   fits      whether the verdict is not a denial
--   text      nil to keep the state, false to remove it, or the new one; a state
--             that was written while the clock was ahead is rewound and not kept
--   deadline  until when the new one lives
--   lives_on  true if the state before lives until then, too
-- A state is text; one that cannot be read counts as none.
--
-- Numbers are doubles holding whole numbers below 2^53. Quotients are taken as
-- (a - a % b) / b: a floor of a rounded quotient can be one too high.

-- Locals, because a global is looked up by its name each time.
local format, match, byte, char = string.format, string.match, string.byte, string.char
local min, max, tonumber = math.min, math.max, tonumber

local COST_MAX = 68719476735            -- 2^36 - 1
local USED_MAX = 9007199254740991       -- 2^53 - 1
local TIME_MAX = 9007199254740991
local NOW_MAX = 4503599627370496        -- 2^52
local STEP_BACK_MAX = 1000000           -- a second

local function quotient(a, b)
  return (a - a % b) / b
end

local function quotient_ceil(a, b)
  local rest = a % b
  if rest == 0 then return a / b end
  return (a - rest) / b + 1
end

-- How whole numbers are written. '%d' takes a third of the time of '%.0f', and is exact
-- wherever a long of C has 64 bits.
local NUMBER = format('%d', NOW_MAX) == '4503599627370496' and '%d' or '%.0f'
local PAIR = NUMBER .. ' ' .. NUMBER
local TRIPLE = PAIR .. ' ' .. NUMBER

-- Two numbers as a state keeps them.
local function pair(a, b)
  return format(PAIR, a, b)
end

-- An instant from its text. Windows of many keys end together, and a text of sixteen
-- digits takes long to read.
local instants = {}
local function read_instant(text)
  if not text then return nil end
  local instant = instants[text]
  if not instant then
    instant = tonumber(text)
    instants[text] = instant
  end
  return instant
end

-- The instant and the number of a state, or nothing.
local function read_pair(state)
  if not state then return nil end
  local a, b = match(state, '^(%d+) (%d+)$')
  return read_instant(a), tonumber(b)
end

-- The end of the window, aligned to the epoch, that now is in.
local function window_end(now, window)
  return now - now % window + window
end

-- Whether a state that lives so long at most is from a clock that was ahead. What
-- it counts then counts as taken now. Twin: algorithm/rewind.rs.
local function is_ahead(ask, deadline, life)
  return deadline > ask.now + life + STEP_BACK_MAX
end

-- What to do with the cost, given whether it fits.
local function step_of(ask, fits)
  if ask.operation == 'refund' then return 'give_back' end
  if ask.operation == 'report' or fits then return 'take' end
  if ask.operation == 'check' and ask.counts_rejected then return 'count_denied' end
  return 'deny'
end

local function is_denied(step)
  return step == 'deny' or step == 'count_denied'
end

-- Whether the state must stay as it is.
local function keeps(ask, step)
  return ask.cost == 0 or ask.operation == 'peek' or step == 'deny'
end
