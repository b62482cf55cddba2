-- Time at which tokens flow, exact to the fraction of a microsecond. Twin: crates/core/src/pace.rs.
--
-- A span is two numbers, whole and part, with part / ask.parts of a microsecond;
-- tables would cost more than the sums. The spans of the capacity and of the
-- cost are worked out by the caller, so that here are only sums and comparisons,
-- but for the allowance of a soft limit.

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

-- span * times / over, rounded up to a part with `rounding` over - 1, and down with 0.
-- Whole microseconds by whole overs first: every product stays below 2^53.
local function span_times(ask, whole, part, times, over, rounding)
  local rest = whole % over * times
  local parts = quotient(rest % over * ask.parts + part * times + rounding, over)
  return quotient(whole, over) * times + quotient(rest, over) + quotient(parts, ask.parts), parts % ask.parts
end

-- What only a soft limit has, from its text: by how many percent it may be
-- exceeded, the span of its base, and the most that may be missing for the cost to
-- fit. Twin: limit/allowance.rs.
local function allowance_of(ask)
  if ask.allowance == '0' then return nil end
  local soft = ask.soft
  if soft then return soft end
  local percent, base, base_part, most, most_part =
    match(ask.allowance, '^(%d+),(%d+),(%d+),(%d+),(%d+)$')
  soft = { over = 100 + tonumber(percent), base = tonumber(base), base_part = tonumber(base_part),
    most = tonumber(most), most_part = tonumber(most_part) }
  soft.take, soft.take_part = span_times(ask, ask.take, ask.take_part, 100, soft.over, soft.over - 1)
  ask.soft = soft
  return soft
end

-- The most that may be missing for the cost to fit: the same for all that ask the same.
local function most_missing(ask)
  if not ask.most then
    local soft = allowance_of(ask)
    if soft then
      ask.most, ask.most_part = soft.most, soft.most_part
    else
      ask.most, ask.most_part = span_sub(ask, ask.full_span, ask.full_span_part, ask.take, ask.take_part)
    end
  end
  return ask.most, ask.most_part
end

-- What is missing once the cost is taken.
local function missing_with(ask, missing, part)
  local most = TIME_MAX - ask.now
  local soft = allowance_of(ask)
  if not soft then return span_add(ask, missing, part, ask.take, ask.take_part, most) end
  if is_longer(missing, part, soft.base, soft.base_part) then
    return span_add(ask, missing, part, soft.take, soft.take_part, most)
  end
  local sum, sum_part = span_add(ask, missing, part, ask.take, ask.take_part, TIME_MAX)
  if is_longer(sum, sum_part, soft.base, soft.base_part) then
    local beyond, beyond_part = span_sub(ask, sum, sum_part, soft.base, soft.base_part)
    beyond, beyond_part = span_times(ask, beyond, beyond_part, 100, soft.over, soft.over - 1)
    return span_add(ask, soft.base, soft.base_part, beyond, beyond_part, most)
  end
  return span_add(ask, sum, sum_part, 0, 0, most)
end

-- What is missing once the cost is given back.
local function missing_without(ask, missing, part)
  local soft = allowance_of(ask)
  if not soft or not is_longer(missing, part, soft.base, soft.base_part) then
    return span_sub(ask, missing, part, ask.take, ask.take_part)
  end
  local beyond, beyond_part = span_sub(ask, missing, part, soft.base, soft.base_part)
  -- Rounded down, unlike what is taken: a refund gives back no more than its cost.
  local given, given_part = span_times(ask, ask.take, ask.take_part, 100, soft.over, 0)
  if not is_longer(given, given_part, beyond, beyond_part) then
    return span_sub(ask, missing, part, given, given_part)
  end
  beyond, beyond_part = span_times(ask, beyond, beyond_part, soft.over, 100, 0)
  local rest, rest_part = span_sub(ask, ask.take, ask.take_part, beyond, beyond_part)
  return span_sub(ask, soft.base, soft.base_part, rest, rest_part)
end

-- A state says how long it was to live in units of 262 ms.
local LIFE_UNIT = 262144

local function instant_text(deadline, life, early)
  return format(TRIPLE, deadline, life, early)
end

-- How long from now until the instant that the state holds; and the state, if it
-- had to be rewound, with its deadline.
local function span_until(state, ask)
  local deadline, units, early = match(state or '', '^(%d+) (%d+) (%d+)$')
  deadline, units, early = tonumber(deadline), tonumber(units), tonumber(early)
  if not deadline or deadline <= ask.now then return 0, 0 end
  local life = units * LIFE_UNIT
  if is_ahead(ask, deadline, life) then
    local full = ask.full_span + (ask.full_span_part > 0 and 1 or 0)
    if life < full + LIFE_UNIT then life = min(life, full) end
    deadline = min(ask.now + life, TIME_MAX)
    return deadline - ask.now, 0, instant_text(deadline, units, 0), deadline
  end
  if early == 0 or early >= ask.parts then return deadline - ask.now, 0 end
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
    return missing_with(ask, missing, part)
  elseif step == 'count_denied' and is_longer(ask.full_span, ask.full_span_part, missing, part) then
    return ask.full_span, ask.full_span_part
  elseif step == 'give_back' then
    return missing_without(ask, missing, part)
  end
  return missing, part
end
