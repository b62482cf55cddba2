-- Time at which tokens flow, exact to the fraction of a microsecond. Twin: crates/core/src/pace.rs.
--
-- A span is two numbers, whole and part, with part / ask.parts of a microsecond;
-- tables would cost more than the sums. The spans of the capacity and of the
-- cost are worked out by the caller, so that here are only sums and comparisons.

local function is_longer(a, a_part, b, b_part)
  if a ~= b then return a > b end
  return a_part > b_part
end

-- a + b, never longer than most.
local function span_add(ask, a, a_part, b, b_part, most)
  local whole, part = a + b, a_part + b_part
  if part >= ask.parts then
    whole, part = whole + 1, part - ask.parts
  end
  if whole >= most then return most, 0 end
  return whole, part
end

-- a - b, zero if b is longer.
local function span_sub(ask, a, a_part, b, b_part)
  if not is_longer(a, a_part, b, b_part) then return 0, 0 end
  if a_part >= b_part then return a - b, a_part - b_part end
  return a - b - 1, ask.parts - (b_part - a_part)
end

-- A state says how long it was to live in units of 262 ms.
local LIFE_UNIT = 262144

local function instant_text(deadline, life, early)
  return string.format('%.0f %.0f %.0f', deadline, life, early)
end

-- How long from now until the instant that the state holds; and the state, if it
-- had to be rewound, with its deadline.
local function span_until(state, ask)
  local deadline, units, early = string.match(state or '', '^(%d+) (%d+) (%d+)$')
  deadline, units, early = tonumber(deadline), tonumber(units), tonumber(early)
  if not deadline or deadline <= ask.now then return 0, 0 end
  local life = units * LIFE_UNIT
  if is_ahead(ask, deadline, life) then
    local hard = ask.hard_span + (ask.hard_span_part > 0 and 1 or 0)
    if life < hard + LIFE_UNIT then life = math.min(life, hard) end
    deadline = math.min(ask.now + life, TIME_MAX)
    return deadline - ask.now, 0, instant_text(deadline, units, 0), deadline
  end
  if early >= ask.parts then early = 0 end
  return span_sub(ask, deadline - ask.now, 0, 0, early)
end

-- The change to the instant that is a span from now.
local function span_change(ask, whole, part)
  if whole == 0 and part == 0 then return false end
  local deadline, early = ask.now + whole, 0
  if part > 0 then
    deadline, early = deadline + 1, ask.parts - part
  end
  return instant_text(deadline, quotient_ceil(deadline - ask.now, LIFE_UNIT), early), deadline
end

-- What is missing from a bucket after the step.
local function step_missing(ask, step, missing, part)
  if step == 'take' then
    return span_add(ask, missing, part, ask.take, ask.take_part, TIME_MAX - ask.now)
  elseif step == 'count_denied' and is_longer(ask.hard_span, ask.hard_span_part, missing, part) then
    return ask.hard_span, ask.hard_span_part
  elseif step == 'give_back' then
    return span_sub(ask, missing, part, ask.take, ask.take_part)
  end
  return missing, part
end
