-- Time at which tokens flow, exact to the fraction of a microsecond. Twin: algorithm/pace.rs.
--
-- A span is { whole, part } with part / ask.parts of a microsecond. The spans
-- of the capacity and of the cost are worked out by the caller, so that here
-- are only sums and comparisons.

local function is_longer(a, b)
  if a[1] ~= b[1] then return a[1] > b[1] end
  return a[2] > b[2]
end

local function longer(a, b)
  if is_longer(b, a) then return b end
  return a
end

local function shorter(a, b)
  if is_longer(a, b) then return b end
  return a
end

local function span_add(ask, a, b)
  local whole, part = a[1] + b[1], a[2] + b[2]
  if part >= ask.parts then
    whole, part = whole + 1, part - ask.parts
  end
  return shorter({ whole, part }, { TIME_MAX, 0 })
end

-- a - b, zero if b is longer.
local function span_sub(ask, a, b)
  if not is_longer(a, b) then return { 0, 0 } end
  if a[2] >= b[2] then return { a[1] - b[1], a[2] - b[2] } end
  return { a[1] - b[1] - 1, ask.parts - (b[2] - a[2]) }
end

-- How long from now until the instant that the state holds.
local function span_until(state, ask)
  local deadline, early = string.match(state or '', '^(%d+) (%d+)$')
  deadline, early = tonumber(deadline), tonumber(early)
  if not deadline or deadline <= ask.now then return { 0, 0 } end
  if early >= ask.parts then early = 0 end
  return span_sub(ask, { deadline - ask.now, 0 }, { 0, early })
end

-- The change to the instant that is a span from now.
local function span_change(ask, step, span)
  if keeps(ask, step) then return nil end
  if span[1] == 0 and span[2] == 0 then return false end
  local deadline, early = ask.now + span[1], 0
  if span[2] > 0 then
    deadline, early = deadline + 1, ask.parts - span[2]
  end
  return { digits(deadline) .. ' ' .. digits(early), deadline }
end
