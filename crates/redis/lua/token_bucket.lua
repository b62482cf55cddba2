-- A bucket of tokens that refills at a rate. Twin: algorithm/token_bucket.rs.
-- State: when it is full again.

local function token_bucket(state, ask)
  local missing, part, rewound, deadline = span_until(state, ask)
  local most, most_part = most_missing(ask)
  local step = step_of(ask, ask.cost <= ask.hard and not is_longer(missing, part, most, most_part))
  local fits = not is_denied(step)
  if keeps(ask, step) then return fits, rewound, deadline end
  return fits, span_change(ask, step_missing(ask, step, missing, part))
end
