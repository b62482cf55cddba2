-- Drops some results that are too old, or for which there is no room; the oldest first.
local function sweep(ended, ended_at, ended_bytes, keep_ms, most, most_bytes)
  local time = redis.call('TIME')
  -- In microseconds, so that of two results the older one is known.
  local now = tonumber(time[1]) * 1000000 + tonumber(time[2])
  for _ = 1, 16 do
    local first = redis.call('ZRANGE', ended_at, 0, 0, 'WITHSCORES')
    if not first[1] then
      redis.call('DEL', ended_bytes)
      return now
    end
    local is_old = tonumber(first[2]) < now - tonumber(keep_ms) * 1000
    local is_much = redis.call('ZCARD', ended_at) > tonumber(most)
      or tonumber(redis.call('GET', ended_bytes) or '0') > tonumber(most_bytes)
    if not is_old and not is_much then return now end
    redis.call('DECRBY', ended_bytes, redis.call('HSTRLEN', ended, first[1]))
    redis.call('HDEL', ended, first[1])
    redis.call('ZREM', ended_at, first[1])
  end
  return now
end
