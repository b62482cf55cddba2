-- A queue that drains at a rate. Twin: algorithm/leaky_bucket.rs.
-- State: when the next request may leave at once.

local function leaky_bucket(state, ask)
  local queue, part, rewound, deadline = span_until(state, ask)
  local most, most_part = most_missing(ask)
  if ask.max_wait >= 0 and ask.cost > 0 and is_longer(most, most_part, ask.max_wait, 0) then
    most, most_part = ask.max_wait, 0
  end
  local step = step_of(ask, ask.cost <= ask.hard and not is_longer(queue, part, most, most_part))
  local fits = not is_denied(step)
  if keeps(ask, step) then return fits, rewound, deadline end
  return fits, span_change(ask, step_missing(ask, step, queue, part))
end
