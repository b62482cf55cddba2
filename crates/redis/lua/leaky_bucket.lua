-- A queue that drains at a rate. Twin: algorithm/leaky_bucket.rs.
-- State: when the next request may leave at once.

local function leaky_bucket(state, ask)
  local queue = span_until(state, ask)
  local joinable = span_sub(ask, ask.hard_span, ask.take)
  if ask.max_wait >= 0 and ask.cost > 0 then
    joinable = shorter(joinable, { ask.max_wait, 0 })
  end
  local step = step_of(ask, ask.cost <= ask.hard and not is_longer(queue, joinable))
  return not is_denied(step), span_change(ask, step, step_missing(ask, step, queue))
end
