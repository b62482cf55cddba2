-- Two windows, the older weighted by how much of it is still in view.
-- Twin: algorithm/sliding_counter.rs.
-- State: when nothing of either is in view, the previous and the current window.

-- floor(a * b / c) for a < 2^36 and b <= c < 2^51. Where the product does not
-- fit in 53 bits, a is taken bit by bit: the rest stays below 3 * c.
local function scaled(a, b, c)
  if a * b < 9007199254740992 then return quotient(a * b, c) end
  local result, rest, bit = 0, 0, 34359738368 -- 2^35
  while bit >= 1 do
    rest, result = rest * 2, result * 2
    if a >= bit then
      a = a - bit
      rest = rest + b
    end
    while rest >= c do
      rest, result = rest - c, result + 1
    end
    bit = bit / 2
  end
  return result
end

local function counter_text(gone, previous, current)
  return format(TRIPLE, gone, previous, current)
end

local function sliding_counter(state, ask)
  local gone, previous, current = match(state or '', '^(%d+) (%d+) (%d+)$')
  gone, previous, current = read_instant(gone), tonumber(previous), tonumber(current)
  local last, gone_before = window_end(ask.now, ask.window), gone
  local rewound
  if not gone or gone <= ask.now then
    previous, current = 0, 0
  elseif is_ahead(ask, gone, 2 * ask.window) then
    previous, current = 0, max(min(previous + current, ask.hard), current)
    gone = min(last + ask.window, TIME_MAX)
    rewound = counter_text(gone, previous, current)
  elseif gone - ask.window >= last then
    last = gone - ask.window
  else
    previous, current = current, 0
  end
  local in_view = min(max(last - ask.now, 0), ask.window)
  local used = current + scaled(previous, in_view, ask.window)
  local step = step_of(ask, used + ask.cost <= ask.hard)
  if step == 'take' or step == 'count_denied' then
    current = min(current + ask.cost, COST_MAX)
  elseif step == 'give_back' then
    local from_current = min(ask.cost, current)
    current = current - from_current
    previous = max(previous - (ask.cost - from_current), 0)
  end
  local fits = not is_denied(step)
  if keeps(ask, step) then return fits, rewound, gone end
  if previous == 0 and current == 0 then return fits, false end
  gone = min(last + ask.window, TIME_MAX)
  return fits, counter_text(gone, previous, current), gone, gone == gone_before
end
