-- A trailing window over a log of what was taken. Twin: algorithm/window_log.rs.
--
-- State: `first last last_cost total:` and, for each entry but the newest, the
-- gap to the next one and its cost, as numbers of seven bits a byte.

local function read_number(bytes, at)
  local n, weight = 0, 1
  while true do
    local byte = byte(bytes, at)
    if not byte then return nil, at end
    at = at + 1
    n = n + byte % 128 * weight
    if byte < 128 then return n, at end
    weight = weight * 128
  end
end

local function write_number(n)
  local bytes = ''
  while n >= 128 do
    bytes = bytes .. char(n % 128 + 128)
    n = (n - n % 128) / 128
  end
  return bytes .. char(n)
end

-- gap, cost and where the next entry begins; nil at the end.
local function read_entry(gaps, at)
  local head, cost
  head, at = read_number(gaps, at)
  if not head then return nil end
  cost = 1
  if head % 2 == 1 then cost, at = read_number(gaps, at) end
  if not cost then return nil end
  return (head - head % 2) / 2, cost, at
end

local function write_entry(gap, cost)
  if cost == 1 then return write_number(gap * 2) end
  return write_number(gap * 2 + 1) .. write_number(cost)
end

-- When the entry of a tick is out of the window.
local function leaves(ask, tick)
  return min(tick * ask.tick + (ask.tick - 1) + ask.window, TIME_MAX)
end

local function read_log(state)
  local first, last, last_cost, total, gaps = match(state or '', '^(%d+) (%d+) (%d+) (%d+):(.*)$')
  if not first then return nil end
  return {
    first = tonumber(first), last = tonumber(last), last_cost = tonumber(last_cost),
    total = tonumber(total), gaps = gaps, at = 1,
  }
end

local function drop_oldest(log)
  local gap, cost, at = read_entry(log.gaps, log.at)
  if gap then
    log.first, log.total, log.at = log.first + gap, log.total - cost, at
  else
    log.total, log.first, log.last, log.last_cost, log.gaps, log.at = 0, 0, 0, 0, '', 1
  end
end

local LOG_HEAD = PAIR .. ' ' .. PAIR .. ':'

local function log_text(log)
  return format(LOG_HEAD, log.first, log.last, log.last_cost, log.total) .. log.gaps
end

-- The log with the cost taken at a tick, not before the newest entry.
local function log_with(log, tick, ask)
  local cost, same = ask.cost, tick == log.last
  if log.total == 0 or (not same and cost >= ask.hard) then
    return { first = tick, last = tick, last_cost = cost, total = cost, gaps = '' }
  end
  local enough = max(ask.hard - cost, 0)
  while log.first < log.last do
    local _, oldest = read_entry(log.gaps, log.at)
    if log.total - oldest < enough then break end
    drop_oldest(log)
  end
  local gaps = string.sub(log.gaps, log.at)
  if same then
    local last_cost = min(log.last_cost + cost, COST_MAX)
    local total = log.total - log.last_cost + last_cost
    return { first = log.first, last = tick, last_cost = last_cost, total = total, gaps = gaps }
  end
  gaps = gaps .. write_entry(tick - log.last, log.last_cost)
  return { first = log.first, last = tick, last_cost = cost, total = log.total + cost, gaps = gaps }
end

-- { tick, cost } of each entry, oldest first.
local function entries_of(log)
  local entries, tick, at = {}, log.first, log.at
  while true do
    local gap, taken, after = read_entry(log.gaps, at)
    if not gap then break end
    entries[#entries + 1] = { tick, taken }
    tick, at = tick + gap, after
  end
  if log.total > 0 then entries[#entries + 1] = { log.last, log.last_cost } end
  return entries
end

-- The log of these entries; nil if there are none.
local function log_of(entries)
  local newest = entries[#entries]
  if not newest then return nil end
  local gaps, total = {}, newest[2]
  for i = 1, #entries - 1 do
    gaps[i] = write_entry(entries[i + 1][1] - entries[i][1], entries[i][2])
    total = total + entries[i][2]
  end
  return {
    first = entries[1][1], last = newest[1], last_cost = newest[2], total = total,
    gaps = table.concat(gaps), at = 1,
  }
end

-- Entries of ticks that are yet to come are one entry of the tick of now.
local function log_rewound(log, tick)
  local entries, ahead = {}, 0
  for _, entry in ipairs(entries_of(log)) do
    if entry[1] < tick then entries[#entries + 1] = entry else ahead = ahead + entry[2] end
  end
  entries[#entries + 1] = { tick, min(ahead, COST_MAX) }
  return log_of(entries)
end

-- The log with the cost given back, the newest first; nil if nothing is left.
local function log_without(log, cost)
  local entries = entries_of(log)
  local left = min(cost, log.total)
  while #entries > 0 do
    local newest = entries[#entries]
    local taken = min(left, newest[2])
    newest[2], left = newest[2] - taken, left - taken
    if newest[2] > 0 then break end
    entries[#entries] = nil
  end
  return log_of(entries)
end

local function window_log(state, ask)
  local log = read_log(state)
  local now, rewound, deadline = ask.now, nil, nil
  if log then
    if is_ahead(ask, leaves(ask, log.last), ask.window + ask.tick - 1) then
      log = log_rewound(log, quotient(now, ask.tick))
      rewound, deadline = log_text(log), leaves(ask, log.last)
    end
    now = max(now, log.last * ask.tick)
    while log.total > 0 and leaves(ask, log.first) <= now do drop_oldest(log) end
  else
    log = { first = 0, last = 0, last_cost = 0, total = 0, gaps = '', at = 1 }
  end
  local step = step_of(ask, log.total + ask.cost <= ask.hard)
  local fits = not is_denied(step)
  if keeps(ask, step) then return fits, rewound, deadline end
  local after
  if step == 'give_back' then
    after = log_without(log, ask.cost)
  else
    after = log_with(log, quotient(now, ask.tick), ask)
  end
  if not after then return fits, false end
  return fits, log_text(after), leaves(ask, after.last)
end
