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

-- How long from now until the instant that the state holds.
local function span_until(state, ask)
  local deadline, early = read_pair(state)
  if not deadline or deadline <= ask.now then return 0, 0 end
  if early >= ask.parts then early = 0 end
  return span_sub(ask, deadline - ask.now, 0, 0, early)
end

-- The change to the instant that is a span from now.
local function span_change(ask, step, whole, part)
  if keeps(ask, step) then return nil end
  if whole == 0 and part == 0 then return false end
  local deadline, early = ask.now + whole, 0
  if part > 0 then
    deadline, early = deadline + 1, ask.parts - part
  end
  return pair(deadline, early), deadline
end

-- What is missing from a bucket after the step.
local function step_missing(ask, step, missing, part)
  if step == 'take' then
    return span_add(ask, missing, part, ask.take, ask.take_part, TIME_MAX - ask.now)
  elseif step == 'count_refused' and is_longer(ask.hard_span, ask.hard_span_part, missing, part) then
    return ask.hard_span, ask.hard_span_part
  elseif step == 'give_back' then
    return span_sub(ask, missing, part, ask.take, ask.take_part)
  end
  return missing, part
end
