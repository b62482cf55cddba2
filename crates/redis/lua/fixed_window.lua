-- At most L per window aligned to the epoch. Twin: algorithm/fixed_window.rs.
-- State: the end of the window and what was used in it.

local function fixed_window(state, ask)
  local last, used = read_pair(state)
  local last_before, rewound = last, nil
  if not last or last <= ask.now then
    last, used = window_end(ask.now, ask.window), 0
  elseif is_ahead(ask, last, ask.window) then
    last = window_end(ask.now, ask.window)
    rewound = pair(last, used)
  end
  local step = step_of(ask, used + ask.cost <= ask.hard)
  if step == 'take' or step == 'count_denied' then
    used = min(used + ask.cost, USED_MAX)
  elseif step == 'give_back' then
    used = max(used - ask.cost, 0)
  end
  local fits = not is_denied(step)
  if keeps(ask, step) then return fits, rewound, last end
  if step == 'give_back' and used == 0 then return fits, false end
  return fits, pair(last, used), last, last == last_before
end
