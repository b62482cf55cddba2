-- Decides all charges of a request together, all or nothing. Twin: limiter/src/store.rs.
--
-- KEYS  one for each charge; a key may come twice
-- ARGV  1: now in microseconds, or empty for the server's own clock
--       2: 1 if some quota passes without a charge, 2 if another part of the
--          request is refused
--       3: change nothing if now is later than this, or empty
--       then for each charge its algorithm, its mode, and what read_ask reads
-- Reply now, 1 if denied else 0, and for each charge the state before it was
--       asked, or false: the caller takes the same steps to tell the details

local FIELDS = 15
local ALGORITHMS = {
  fixed_window = fixed_window,
  sliding_log = sliding_log,
  sliding_counter = sliding_counter,
  sliding_buckets = sliding_buckets,
  token_bucket = token_bucket,
  token_bucket_interval = token_bucket_interval,
  leaky_bucket = leaky_bucket,
}

local function read_charge(i, now)
  local at = 4 + (i - 1) * FIELDS
  return { decide = ALGORITHMS[ARGV[at]], mode = ARGV[at + 1], ask = read_ask(at, now) }
end

local function is_shadow(charge)
  return charge.mode == 'shadow' or charge.mode == 'shadow_quota'
end

local function is_quota(charge)
  return charge.mode == 'quota' or charge.mode == 'shadow_quota'
end

-- Whether these fits refuse the request.
local function refuses(charges, fits)
  local any_quota, quota_passes = false, ARGV[2] == '1'
  for i, charge in ipairs(charges) do
    local denies = not fits[i] and not is_shadow(charge)
    if is_quota(charge) then
      any_quota = true
      quota_passes = quota_passes or not denies
    elseif denies then
      return true
    end
  end
  return any_quota and not quota_passes
end

-- Whether a charge stands although the request is denied.
local function counts_anyway(charge)
  local operation = charge.ask.operation
  return is_shadow(charge) or charge.ask.counts_rejected or operation == 'report' or operation == 'refund'
end

-- Takes the charges that `stands` picks one after the other; what becomes of
-- each key, and which charges fit.
local function take(charges, before, stands)
  local states, changes, fits = {}, {}, {}
  for i, charge in ipairs(charges) do
    local key = KEYS[i]
    if states[key] == nil then states[key] = before[key] end
    if stands(charge) then
      local fit, text, deadline = charge.decide(states[key] or nil, charge.ask)
      fits[i] = fit
      if text ~= nil then
        changes[key] = { text, deadline }
        states[key] = text
      end
    end
  end
  return changes, fits
end

local now = time_of(ARGV[1])
local charges, before, reply = {}, {}, {}
for i = 1, #KEYS do
  charges[i] = read_charge(i, now)
  if before[KEYS[i]] == nil then before[KEYS[i]] = read_state(KEYS[i]) end
  reply[i + 2] = before[KEYS[i]]
end
local changes, fits = take(charges, before, function() return true end)
local refused_elsewhere = ARGV[2] == '2'
local denied = refused_elsewhere or refuses(charges, fits)
if denied and (#charges > 1 or refused_elsewhere) then changes = take(charges, before, counts_anyway) end
if now > (tonumber(ARGV[3]) or now) then changes = {} end
for key, change in pairs(changes) do write_state(key, before[key], change[1], change[2], now) end
reply[1], reply[2] = now, denied and 1 or 0
return reply
