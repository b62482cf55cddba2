-- A bucket of tokens that refills at a rate. Twin: algorithm/token_bucket.rs.
-- State, smooth: when it is full again. By interval: that, and how many are missing.

-- What is missing from a bucket after the step.
local function step_missing(ask, step, missing)
  if step == 'take' then
    return shorter(span_add(ask, missing, ask.take), { TIME_MAX - ask.now, 0 })
  elseif step == 'count_refused' then
    return longer(missing, ask.hard_span)
  elseif step == 'give_back' then
    return span_sub(ask, missing, ask.take)
  end
  return missing
end

local function token_bucket(state, ask)
  local missing = span_until(state, ask)
  local most = span_sub(ask, ask.hard_span, ask.take)
  local step = step_of(ask, ask.cost <= ask.hard and not is_longer(missing, most))
  return not is_denied(step), span_change(ask, step, step_missing(ask, step, missing))
end

local function token_bucket_interval(state, ask)
  local full_at, missing = string.match(state or '', '^(%d+) (%d+)$')
  full_at, missing = tonumber(full_at), tonumber(missing)
  local upcoming
  if not full_at or full_at <= ask.now then
    upcoming, missing = ask.now + ask.window, 0
  else
    local refills = quotient_ceil(missing, ask.count)
    local to_come = math.min(quotient_ceil(full_at - ask.now, ask.window), refills)
    missing = missing - (refills - to_come) * ask.count
    upcoming = full_at - ask.window * math.max(to_come - 1, 0)
  end
  local step = step_of(ask, missing + ask.cost <= ask.hard)
  if step == 'take' then
    local refills = quotient(TIME_MAX - upcoming, ask.window) + 1
    local most = USED_MAX
    if refills <= quotient(USED_MAX, ask.count) then most = refills * ask.count end
    missing = math.min(missing + ask.cost, most)
  elseif step == 'count_refused' then
    missing = math.max(missing, ask.hard)
  elseif step == 'give_back' then
    missing = math.max(missing - ask.cost, 0)
  end
  local fits = not is_denied(step)
  if keeps(ask, step) then return fits, nil end
  if missing == 0 then return fits, false end
  full_at = math.min(upcoming + ask.window * (quotient_ceil(missing, ask.count) - 1), TIME_MAX)
  return fits, { digits(full_at) .. ' ' .. digits(missing), full_at }
end
