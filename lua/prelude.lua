-- What all scripts share. It is put in front of each of them when the binary is built.
--
-- Numbers are doubles: whole ones are exact below 2^53, and a number beyond that is an error, never a rounding.

-- Looked up once: a global costs more than what most of these do.
local call, pcall, tonumber, error, ipairs, pairs, unpack = redis.call, pcall, tonumber, error, ipairs, pairs, unpack
local floor, max, min, format = math.floor, math.max, math.min, string.format
local unpacked, packed_of = cmsgpack.unpack, cmsgpack.pack

local MICRO = 1000000
local MAX_COUNT = 9007199254740992
-- How long an expired hold is remembered, so that a late settlement still counts: a month, the longest window.
local REMEMBERED_MS = 2678400000
-- Slices that have left a window are kept for this many more, for a clock that steps back.
local SLICES_KEPT = 2

-- A whole number of the store. Anything else is nothing: an unreadable counter is an unknown one.
local function known(text)
  local number = text and tonumber(text)
  if not number or number ~= floor(number) or number > MAX_COUNT or number < -MAX_COUNT then
    return nil
  end
  return number
end

-- A whole number of the caller. Anything else is the caller's fault.
local function whole(text)
  local number = known(text)
  if not number then
    error('WEIR_RANGE ' .. tostring(text))
  end
  return number
end

-- A number as the store keeps it: all digits, no exponent.
local function digits(number)
  if number > MAX_COUNT or number < -MAX_COUNT then
    error('WEIR_RANGE ' .. tostring(number))
  end
  return format('%.0f', number)
end

-- The instant: the store's own, or the one that a test tells.
local function clock(told)
  local now = whole(told)
  if now >= 0 then
    return now
  end
  local time = call('TIME')
  return time[1] * 1000 + floor(time[2] / 1000)
end

-- a / b, rounded up, exactly.
local function ceil_div(a, b)
  local quotient = floor(a / b)
  local rest = a - quotient * b
  if rest < 0 then
    quotient, rest = quotient - 1, rest + b
  elseif rest >= b then
    quotient, rest = quotient + 1, rest - b
  end
  return rest > 0 and quotient + 1 or quotient
end

-- Whether the tenant's counters are of this epoch and whole: nothing when they are.
-- `live` counts what the other two keys hold: if one of the three is lost, the numbers do not match.
local function not_warm(keys, epoch, its_epoch, live)
  local its = known(its_epoch)
  if its and its > whole(epoch) then
    return {'STALE'}
  end
  live = known(live)
  if its ~= whole(epoch) or not live or call('ZCARD', keys[3]) ~= live
    or call('HLEN', keys[2]) ~= live then
    return {'COLD'}
  end
  return nil
end

-- Reads the meters of the arguments: nine to each, from `first` on.
local function meters_of(argv, first, count, now)
  local meters = {}
  for number = 1, count do
    local at = first + (number - 1) * 9
    local meter = {
      id = argv[at], rule = argv[at + 1], metric = argv[at + 2], wanted = whole(argv[at + 3]),
      limit = whole(argv[at + 4]),
    }
    if meter.rule == 'bucket' then
      meter.rate = whole(argv[at + 5])
    elseif meter.rule == 'window' then
      meter.slice_ms, meter.slices = whole(argv[at + 5]), whole(argv[at + 6])
      meter.slice_start = now - now % meter.slice_ms
      meter.oldest = meter.slice_start - meter.slice_ms * (meter.slices - 1)
    elseif meter.rule == 'month' then
      -- The month of the instant, its neighbours on both sides: the caller did not know the instant.
      for edge = 5, 7 do
        local starts, ends = whole(argv[at + edge]), whole(argv[at + edge + 1])
        if starts <= now and now < ends then
          meter.starts, meter.ends = starts, ends
        end
      end
      if not meter.starts then
        error('WEIR_CLOCK ' .. digits(now))
      end
    end
    meters[number] = meter
  end
  return meters
end

-- The fields of a meter, in the order in which `counter` takes them.
local function fields_of(meter, into)
  local id, n = meter.id, #into
  if meter.rule == 'bucket' then
    into[n + 1], into[n + 2], into[n + 3] = id .. '/level', id .. '/at', id .. '/rate'
  elseif meter.rule == 'window' then
    into[n + 1], into[n + 2], into[n + 3] = id .. '/used', id .. '/oldest', id .. '/held'
  elseif meter.rule == 'month' then
    local period = digits(meter.starts)
    into[n + 1], into[n + 2] = id .. '/' .. period, id .. '/held/' .. period
  elseif meter.rule == 'balance' then
    into[n + 1], into[n + 2], into[n + 3] = id .. '/credited', id .. '/used', id .. '/held'
  else
    into[n + 1] = id .. '/held'
  end
end

-- Takes a meter's counter from the values of its fields, and says where the next one's begin.
-- Says false when one of them is unknown: that is not zero.
local function counter(meter, values, at)
  local a, b, c = known(values[at]), known(values[at + 1]), known(values[at + 2])
  if meter.rule == 'bucket' then
    meter.level, meter.at, meter.filled_at = a, b, c
    return a and b and c, at + 3
  elseif meter.rule == 'window' then
    meter.used, meter.counted_from, meter.held = a, b, c
    return a and b and c, at + 3
  elseif meter.rule == 'month' then
    meter.used, meter.held = a, b
    return a and b, at + 2
  elseif meter.rule == 'balance' then
    meter.credited, meter.used, meter.held = a, b, c
    return a and b and c, at + 3
  end
  meter.live = a
  return a, at + 1
end

-- Moves a window to the instant: what has left it is taken off its sum. What a clock that steps back brings
-- in again is added; one that steps back further than slices are kept is an error.
local function slide(key, meter)
  local step = meter.slice_ms
  if meter.counted_from == meter.oldest then
    return
  end
  local moved = (meter.oldest - meter.counted_from) / step
  if moved < -SLICES_KEPT then
    error('WEIR_CLOCK ' .. digits(meter.oldest))
  end
  local sign, from, count = 1, meter.oldest, -moved
  if moved > 0 then
    sign, from, count = -1, meter.counted_from, min(moved, meter.slices + SLICES_KEPT)
  end
  local fields = {}
  for number = 0, count - 1 do
    fields[number + 1] = meter.id .. '/' .. digits(from + number * step)
  end
  for _, used in ipairs(call('HMGET', key, unpack(fields))) do
    meter.used = meter.used + sign * (known(used) or 0)
  end
  if moved > 0 then
    local gone = {}
    local until_ms = min(meter.oldest, from + count * step) - SLICES_KEPT * step
    local first = from - SLICES_KEPT * step
    for start = first, until_ms - step, step do
      gone[#gone + 1] = meter.id .. '/' .. digits(start)
    end
    if #gone > 0 then
      call('HDEL', key, unpack(gone))
    end
  end
  meter.counted_from = meter.oldest
  call('HSET', key, meter.id .. '/used', digits(meter.used), meter.id .. '/oldest', digits(meter.oldest))
end

-- Reads the counters of all meters. Nothing and the answer to give, when they are not all known.
local function read(keys, epoch, meters)
  local fields = {'epoch', 'live'}
  for _, meter in ipairs(meters) do
    fields_of(meter, fields)
  end
  local values = call('HMGET', keys[1], unpack(fields))
  local cold = not_warm(keys, epoch, values[1], values[2])
  if cold then
    return nil, cold
  end
  local at, unknown = 3, {'UNKNOWN'}
  for number, meter in ipairs(meters) do
    local is_known
    is_known, at = counter(meter, values, at)
    if not is_known then
      unknown[#unknown + 1] = number - 1
    elseif meter.rule == 'window' then
      slide(keys[1], meter)
    end
  end
  if #unknown > 1 then
    return nil, unknown
  end
  return known(values[2]), nil
end

-- The level of a bucket at the instant, in millionths. A clock that went backwards refills nothing.
local function refilled(level, at, rate, capacity, now)
  -- A thousandth of a unit per second is a millionth per millisecond.
  local gained = max(now - at, 0) * rate
  return min(level + gained, capacity * MICRO)
end

-- What a call used of a metric. A request that was let through counts, whatever became of it.
local function used_of(metric, ending)
  if ending.how == 'undo' then
    return 0
  elseif metric == 'requests' then
    return 1
  elseif ending.how == 'settle' then
    return metric == 'tokens' and ending.tokens or ending.charge
  end
  return 0
end

-- Ends holds: what they set aside goes back, what was used is added, what was used beyond a bucket's estimate is
-- owed. Several at once, so that a bucket is refilled, gets back what was not used, and loses what is owed last.
-- Each ending has `id`, `how` ('settle', 'release', or 'undo' as if it had never been), `if_expired`, `tokens`,
-- `charge`. Says which were there.
local function end_holds(keys, now, endings)
  local ended, fields, seen = {}, {}, {}
  local held, used, buckets, live, charge = {}, {}, {}, 0, 0
  local function field(name)
    if not seen[name] then
      seen[name] = true
      fields[#fields + 1] = name
    end
    return name
  end
  local function book(take, ending)
    local amount = used_of(take[3], ending)
    if amount == 0 then
      return
    end
    local slice = take[1] .. '/' .. digits(take[5])
    if take[2] == 'window' then
      field(take[1] .. '/used'); field(take[1] .. '/oldest'); field(slice)
    elseif take[2] == 'month' then
      field(slice)
    else
      field(take[1] .. '/used')
    end
    used[#used + 1] = {take = take, amount = amount, slice = slice}
  end
  local function give_back(take, ending)
    if take[2] == 'bucket' then
      local unused = take[4] - used_of(take[3], ending)
      local bucket = buckets[take[1]] or {gained = 0, owed = 0, capacity = 0}
      bucket.gained = bucket.gained + max(unused, 0)
      bucket.owed = bucket.owed + min(unused, 0)
      bucket.capacity = max(bucket.capacity, take[7])
      buckets[take[1]] = bucket
      field(take[1] .. '/level'); field(take[1] .. '/at'); field(take[1] .. '/rate')
      return
    end
    local name = take[1] .. '/held'
    if take[2] == 'month' then
      name = name .. '/' .. digits(take[6])
    end
    held[field(name)] = (held[name] or 0) + take[4]
  end

  for _, ending in ipairs(endings) do
    local packed = call('HGET', keys[2], ending.id)
    local hold = packed and unpacked(packed)
    local score = hold and ending.if_expired and tonumber(call('ZSCORE', keys[3], ending.id))
    if hold and not (ending.if_expired and (hold.over or score > now)) then
      for _, take in ipairs(hold.takes) do
        if not hold.over then
          give_back(take, ending)
        end
        if ending.how == 'settle' and take[2] ~= 'bucket' and take[2] ~= 'lease' then
          book(take, ending)
        end
      end
      if not hold.over then
        charge = charge + hold.charge
        ended[#ended + 1] = ending.id
      end
      if ending.if_expired and ending.how == 'release' then
        -- Nobody has said yet what it used: it is remembered for whoever says so late.
        hold.over = true
        call('HSET', keys[2], ending.id, packed_of(hold))
        call('ZADD', keys[3], digits(now + REMEMBERED_MS), ending.id)
      elseif not hold.over or ending.how == 'settle' then
        call('HDEL', keys[2], ending.id)
        call('ZREM', keys[3], ending.id)
        live = live + 1
      end
    end
  end
  if #fields == 0 and live == 0 and charge == 0 then
    return ended
  end

  local values, write = {}, {}
  field('live'); field('charge'); field('cut')
  for number, value in ipairs(call('HMGET', keys[1], unpack(fields))) do
    values[fields[number]] = known(value)
  end
  local function set(name, value)
    values[name] = value
    write[name] = digits(value)
  end
  for name, amount in pairs(held) do
    if values[name] then
      set(name, max(values[name] - amount, 0))
    end
  end
  for id, bucket in pairs(buckets) do
    local level, at, rate = values[id .. '/level'], values[id .. '/at'], values[id .. '/rate']
    if level and at and rate then
      local full = refilled(level, at, rate, bucket.capacity, now)
      level = min(full + bucket.gained * MICRO, bucket.capacity * MICRO) + bucket.owed * MICRO
      set(id .. '/level', max(level, -MAX_COUNT))
      set(id .. '/at', max(now, at))
    end
  end
  for _, one in ipairs(used) do
    local take = one.take
    local id, sum = take[1], take[1] .. '/used'
    if take[2] == 'month' then
      if values[one.slice] then
        set(one.slice, values[one.slice] + one.amount)
      end
    elseif take[2] == 'balance' then
      if values[sum] then
        set(sum, values[sum] + one.amount)
      end
    elseif values[sum] and values[id .. '/oldest'] then
      local oldest = values[id .. '/oldest']
      if take[5] >= oldest then
        set(sum, values[sum] + one.amount)
      end
      if take[5] >= oldest - SLICES_KEPT * take[7] then
        set(one.slice, (values[one.slice] or 0) + one.amount)
      end
    end
  end
  set('live', max((values.live or 0) - live, 0))
  set('charge', max((values.charge or 0) - charge, 0))
  -- Every ending is a new cut: who compares counters with the books sees that something moved in between.
  set('cut', (values.cut or 0) + 1)
  local all = {}
  for name, value in pairs(write) do
    all[#all + 1], all[#all + 2] = name, value
  end
  call('HSET', keys[1], unpack(all))
  return ended
end

-- A hold as its caller gets it: instants, charge, and seven values to each take.
local function told_hold(word, keys, id, hold)
  local answer = {word, hold.admitted, tonumber(call('ZSCORE', keys[3], id)) or 0, hold.charge}
  for _, take in ipairs(hold.takes) do
    for part = 1, 7 do
      answer[#answer + 1] = take[part]
    end
  end
  return answer
end
