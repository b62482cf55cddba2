-- Decides a batch of requests, each with all its charges together, all or nothing.
-- Twin: `decide_together` in limiter/src/store.rs. ALGORITHMS has all algorithms by name.
--
-- KEYS  one for each charge, request by request; a key may come twice
-- ARGV  1: now in microseconds, or empty for the server's own clock
--       then for each charge what is asked of its key
--       then for each request how many charges it has; 1 if some quota passes
--       without a charge, 2 if another part of the request is denied; and,
--       unless it is empty, after which time nothing is to be changed
-- Reply as in single_charges.lua

local function is_shadow(ask)
  return ask.mode == 'shadow' or ask.mode == 'shadow_quota'
end

local function is_quota(ask)
  return ask.mode == 'quota' or ask.mode == 'shadow_quota'
end

local function is_penalty(ask)
  return ask ~= nil and ask.algorithm == 'penalty'
end

-- Whether charges that fit or do not deny the request. A penalty follows its
-- limit, and both deny as one.
local function is_set_denied(asked, fits, quota_passes)
  local any_quota = false
  for i, ask in ipairs(asked) do
    local fit = fits[i] and (fits[i + 1] or not is_penalty(asked[i + 1]))
    local denies = not fit and not is_shadow(ask)
    if is_penalty(ask) and i > 1 then
      denies = false
    elseif is_quota(ask) then
      any_quota = true
      quota_passes = quota_passes or not denies
    elseif denies then
      return true
    end
  end
  return any_quota and not quota_passes
end

-- Whether a charge stands although the request is denied.
local function counts_anyway(ask)
  return is_shadow(ask) or ask.counts_rejected or ask.operation == 'report' or ask.operation == 'refund'
end

-- Takes the charges for which `stands` is true, one after the other, and peeks at
-- the others, whose states may have to be rewound. Returns what becomes of each
-- key, and which charges fit; or nil and the charge whose state is not ours.
local function take(asked, keys, before, stands)
  local states, changes, fits = {}, {}, {}
  for i, ask in ipairs(asked) do
    local key = keys[i]
    if states[key] == nil then states[key] = before[key] end
    if type(states[key]) == 'number' then return nil, i end
    if not stands(ask) then ask = setmetatable({ operation = 'peek' }, { __index = ask }) end
    local is_ours, fit, text, deadline = pcall(ALGORITHMS[ask.algorithm], states[key] or nil, ask)
    if not is_ours then return nil, i end
    fits[i] = fit
    if text ~= nil then
      changes[key] = { text, deadline }
      states[key] = text
    end
  end
  return changes, fits
end

local function all()
  return true
end

-- Notes a strike for each penalty whose limit denies, unless it blocks already.
local function take_strikes(asked, keys, before, changes, fits)
  for i, ask in ipairs(asked) do
    if is_penalty(ask) and ask.operation == 'check' and fits[i] and i > 1 and not fits[i - 1] then
      local change = changes[keys[i]]
      local text, deadline = strike(change and change[1] or before[keys[i]] or nil, ask)
      if text then changes[keys[i]] = { text, deadline } end
    end
  end
  return changes
end

-- What becomes of each key of a request; or nil and the charge whose state is
-- not ours.
local function changes_of(asked, keys, before, flag)
  local changes, fits = take(asked, keys, before, all)
  if not changes then return nil, fits end
  local denied_elsewhere = flag == '2'
  local denied = denied_elsewhere or is_set_denied(asked, fits, flag == '1')
  if denied and (#asked > 1 or denied_elsewhere) then
    local standing, foreign = take(asked, keys, before, counts_anyway)
    if not standing then return nil, foreign end
    changes = standing
  end
  return take_strikes(asked, keys, before, changes, fits)
end

local now = time_of(ARGV[1])
local reply, first = { now }, 1
for request = #KEYS + 2, ARGC do
  local count, flag, not_after = match(ARGV[request], '^(%d+) (%d) (%d*)$')
  local asked, keys, before = {}, {}, {}
  for i = 1, tonumber(count) do
    local at = first + i - 1
    local key = KEYS[at]
    if before[key] == nil then before[key] = read_state(key) end
    asked[i], keys[i], reply[at + 1] = ask_of(at, now), key, before[key]
  end
  local changes, foreign = changes_of(asked, keys, before, flag)
  if not changes then
    if reply[first + foreign] ~= ELSEWHERE then reply[first + foreign] = FOREIGN end
  elseif now <= (tonumber(not_after) or now) then
    for key, change in pairs(changes) do write_state(key, before[key], change[1], change[2], now) end
  end
  first = first + #asked
end
return reply
