-- Who is denied too often is blocked for a while. Twin: crates/core/src/strikes.rs.
-- State: `B deadline length level` for a block, `S deadline level time count…` for strikes.

local LEVEL_MAX = 255

-- What is asked of the key of a penalty; nil if the text is about a limit.
local function read_penalty(text, now)
  if string.sub(text, 1, 8) ~= 'penalty ' then return nil end
  local mode, operation, after, within, block, factor, max =
    match(text, '^penalty (%S+) (%S+) (%d+) (%d+) (%d+) (%d+) (%d+)$')
  return {
    now = now, algorithm = 'penalty', mode = mode, operation = operation, counts_rejected = true,
    after = tonumber(after), within = tonumber(within), block = tonumber(block),
    factor = tonumber(factor), longest = tonumber(max),
  }
end

local read_limit = read_ask
read_ask = function(text, now)
  return read_penalty(text, now) or read_limit(text, now)
end

-- How long a block lasts that follows so many others.
local function block_length(ask, before)
  local length = ask.block
  for _ = 1, before do
    if length >= ask.longest then break end
    length = min(length * ask.factor, ask.longest)
  end
  return min(length, ask.longest)
end

local function read_record(state)
  local record = { strikes = {}, level = 0, deadline = 0 }
  local deadline, length, level = match(state or '', '^B (%d+) (%d+) (%d+)$')
  if deadline then
    record.deadline, record.length, record.level = tonumber(deadline), tonumber(length), tonumber(level)
    record.block_end = record.deadline
    if record.level > 0 then record.block_end = max(record.deadline - record.length, 0) end
    return record
  end
  local times
  deadline, level, times = match(state or '', '^S (%d+) (%d+)( .+)$')
  if not deadline then return record end
  record.deadline, record.level = tonumber(deadline), tonumber(level)
  for at, count in string.gmatch(times, ' (%d+) (%d+)') do
    record.strikes[#record.strikes + 1] = { tonumber(at), tonumber(count) }
  end
  return record
end

local function record_text(record)
  if record.block_end then
    return 'B ' .. format(TRIPLE, record.deadline, record.length, record.level)
  end
  local text = { 'S ' .. pair(record.deadline, record.level) }
  for i, strike in ipairs(record.strikes) do text[i + 1] = pair(strike[1], strike[2]) end
  return table.concat(text, ' ')
end

-- Brings what was written while the clock was ahead down to now; whether anything was.
local function rewind(record, ask)
  local now = ask.now
  if record.block_end then
    if not is_ahead(ask, record.block_end, record.length) then return false end
    record.block_end = now + record.length
    record.deadline = record.block_end
    if record.level > 0 then record.deadline = record.block_end + record.length end
    return true
  end
  local most = max(ask.within, block_length(ask, record.level))
  local any_ahead = is_ahead(ask, record.deadline, most)
  for _, strike in ipairs(record.strikes) do
    any_ahead = any_ahead or strike[1] > now + STEP_BACK_MAX
  end
  if not any_ahead then return false end
  local kept, count = {}, 0
  for _, strike in ipairs(record.strikes) do
    if strike[1] < now then kept[#kept + 1] = strike else count = count + strike[2] end
  end
  if count > 0 then kept[#kept + 1] = { now, count } end
  record.strikes = kept
  record.deadline = min(record.deadline, now + most)
  return true
end

-- What is known of the key now, and the state if it had to be rewound.
local function record_of(state, ask)
  local record = read_record(state)
  local rewound = rewind(record, ask) and record_text(record) or nil
  local deadline = record.deadline
  if record.deadline <= ask.now then
    record = read_record(nil)
  elseif record.block_end and record.block_end <= ask.now then
    record.block_end = nil
  end
  local kept = {}
  for _, strike in ipairs(record.strikes) do
    if strike[1] + ask.within > ask.now then kept[#kept + 1] = strike end
  end
  record.strikes = kept
  return record, rewound, deadline
end

-- Whether the key is not blocked.
local function penalty(state, ask)
  local record, rewound, deadline = record_of(state, ask)
  local happened = ask.operation == 'report' or ask.operation == 'refund'
  return happened or not record.block_end, rewound, deadline
end

-- The state after a strike, and its deadline; nil if the key is blocked already.
local function strike(state, ask)
  local record, rewound, deadline = record_of(state, ask)
  if record.block_end then return rewound, deadline end
  local newest = record.strikes[#record.strikes]
  local at = max(ask.now, newest and newest[1] or 0)
  if newest and newest[1] == at then
    newest[2] = newest[2] + 1
  else
    record.strikes[#record.strikes + 1] = { at, 1 }
  end
  local count = 0
  for _, each in ipairs(record.strikes) do count = count + each[2] end
  if count < ask.after then
    record.deadline = max(record.deadline, at + ask.within)
    return record_text(record), record.deadline
  end
  record.length = block_length(ask, record.level)
  record.block_end = ask.now + record.length
  record.level = ask.factor > 1 and min(record.level + 1, LEVEL_MAX) or 0
  record.deadline = record.block_end
  if record.level > 0 then record.deadline = record.block_end + record.length end
  return record_text(record), record.deadline
end
