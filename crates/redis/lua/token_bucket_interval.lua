-- A bucket of tokens that gets all tokens of a period at once. Twin: algorithm/token_bucket.rs.
-- State: when it is full again, and how many are missing.

local function token_bucket_interval(state, ask)
  local full_at, missing = read_pair(state)
  local upcoming, rewound
  if not full_at or full_at <= ask.now then
    upcoming, missing = ask.now + ask.window, 0
  else
    local refills = quotient_ceil(missing, ask.count)
    if is_ahead(ask, full_at, refills * ask.window) then
      full_at = min(ask.now + refills * ask.window, TIME_MAX)
      rewound = pair(full_at, missing)
    end
    local to_come = min(quotient_ceil(full_at - ask.now, ask.window), refills)
    missing = missing - (refills - to_come) * ask.count
    upcoming = full_at - ask.window * max(to_come - 1, 0)
  end
  local step = step_of(ask, missing + ask.cost <= ask.hard)
  if step == 'take' then
    local refills = quotient(TIME_MAX - upcoming, ask.window) + 1
    local most = USED_MAX
    if refills <= quotient(USED_MAX, ask.count) then most = refills * ask.count end
    missing = min(missing + ask.cost, most)
  elseif step == 'count_denied' then
    missing = max(missing, ask.hard)
  elseif step == 'give_back' then
    missing = max(missing - ask.cost, 0)
  end
  local fits = not is_denied(step)
  if keeps(ask, step) then return fits, rewound, full_at end
  if missing == 0 then return fits, false end
  full_at = min(upcoming + ask.window * (quotient_ceil(missing, ask.count) - 1), TIME_MAX)
  return fits, pair(full_at, missing), full_at
end
