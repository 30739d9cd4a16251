-- Decides on one call, on all its meters at once, and sets aside what it may use: domain::admission::decide.
--
-- KEYS  1 counters, 2 holds, 3 when holds expire; all of one tenant, or of one provider
-- ARGV  1 instant or -1, 2 epoch, 3 request id, 4 life of a hold in ms, 5 charge, 6 whether to look for expired holds
--       (1 or 0), 7 number of meters, then for each: id, rule, metric, wanted, limit, and four numbers of the rule:
--       bucket rate; window length of a slice, number of slices; month four edges of three months
-- Reply ADMIT instant expiry, then for each meter: start of its slice, start of its period, level of its bucket
--       KEPT instant expiry charge, then seven values to each take: the hold was there
--       REFUSE meter reason used held resets_at|-1 retry_after_ms|-1, then the holds that may stand in the way
--       EXPIRED, then id and charge of each: these are to be ended first
--       COLD, UNKNOWN meters, STALE: no verdict; the counters are not there, or of a newer epoch

local now = clock(ARGV[1])
local id = ARGV[3]
local meters = meters_of(ARGV, 8, whole(ARGV[7]), now)
local live, cold = read(KEYS, ARGV[2], meters)
if cold then
  return cold
end

-- How many expired holds one admission ends: their cost must not show on it.
local AT_ADMISSION = 8
-- How many holds are named before a refusal: twice the most calls that a plan of Weir's runs at the same time.
local AT_REFUSAL = 256

local packed = call('HGET', KEYS[2], id)
local own = packed and unpacked(packed)
if ARGV[6] == '1' then
  local expired = {'EXPIRED'}
  local function name(other, hold)
    expired[#expired + 1], expired[#expired + 2] = other, hold.charge
  end
  if own and not own.over and tonumber(call('ZSCORE', KEYS[3], id)) <= now then
    name(id, own)
  end
  for _, other in ipairs(call('ZRANGEBYSCORE', KEYS[3], '-inf', digits(now), 'LIMIT', 0, AT_ADMISSION + 1)) do
    local its = unpacked(call('HGET', KEYS[2], other))
    if its.over then
      -- It was remembered long enough.
      call('HDEL', KEYS[2], other)
      call('ZREM', KEYS[3], other)
      live = live - 1
      call('HSET', KEYS[1], 'live', digits(live))
      own = other ~= id and own or nil
    elseif other ~= id and #expired < 1 + 2 * AT_ADMISSION then
      name(other, its)
    end
  end
  if #expired > 1 then
    return expired
  end
end
if own and not own.over then
  return told_hold('KEPT', KEYS, id, own)
end

local function ask_bucket(meter)
  local level = refilled(meter.level, meter.at, meter.rate, meter.limit, now)
  local wanted_micro = meter.wanted * MICRO
  meter.level_now = level
  if level >= wanted_micro then
    return nil
  end
  local reason, wait
  if meter.wanted > meter.limit then
    reason, wait = 'exceeds_capacity', -1
  else
    reason = meter.metric == 'tokens' and 'token_rate_limited' or 'rate_limited'
    local missing = wanted_micro - level
    wait = meter.rate > 0 and ceil_div(missing, meter.rate) or -1
  end
  -- A bucket has no "used": what is missing from the top stands for it.
  local used = ceil_div(meter.limit * MICRO - level, MICRO)
  return {reason = reason, used = used, held = 0, resets_at = -1, wait = wait}
end

local function ask_rolling(meter)
  local used, held, wanted, limit = meter.used, meter.held, meter.wanted, meter.limit
  local excess = used + held + wanted - limit
  if wanted == 0 or excess <= 0 then
    return nil
  end
  if wanted > limit then
    return {reason = 'exceeds_capacity', used = used, held = held, resets_at = -1, wait = -1}
  end
  -- Slices end oldest first; the wait is over when enough of them have. What is held ends when its calls do,
  -- which nobody knows: then the end of the last slice is the best answer there is.
  local freed, until_ms = 0, now + 1000
  local fields = {}
  for number = 0, meter.slices + SLICES_KEPT - 1 do
    fields[number + 1] = meter.id .. '/' .. digits(meter.oldest + number * meter.slice_ms)
  end
  for number, amount in ipairs(call('HMGET', KEYS[1], unpack(fields))) do
    amount = known(amount)
    if amount then
      until_ms = meter.oldest + (number - 1 + meter.slices) * meter.slice_ms
      freed = freed + amount
      if freed >= excess then
        break
      end
    end
  end
  local wait = max(until_ms - now, 0)
  return {reason = 'window_exhausted', used = used, held = held, resets_at = until_ms, wait = wait}
end

local function ask_month(meter)
  -- A call that costs nothing passes although the money is spent.
  if meter.wanted == 0 or meter.used + meter.held + meter.wanted <= meter.limit then
    return nil
  end
  return {reason = 'budget_exhausted', used = meter.used, held = meter.held, resets_at = meter.ends, wait = -1}
end

local function ask_balance(meter)
  if meter.wanted == 0 or meter.used + meter.held + meter.wanted <= meter.credited then
    return nil
  end
  meter.limit = meter.credited
  return {reason = 'balance_exhausted', used = meter.used, held = meter.held, resets_at = -1, wait = -1}
end

local function ask_lease(meter)
  if meter.live < meter.limit then
    return nil
  end
  -- Nobody knows when a running call ends; a second is the shortest wait a client can be told.
  return {reason = 'concurrency_exhausted', used = meter.live, held = 0, resets_at = -1, wait = 1000}
end

local ASK = {bucket = ask_bucket, window = ask_rolling, month = ask_month, balance = ask_balance, lease = ask_lease}

-- Which of several refusals is told: the one that waiting helps least.
local RANK = {exceeds_capacity = 2, budget_exhausted = 1, balance_exhausted = 1}

local function tells_more(new, old)
  local new_rank, old_rank = RANK[new.reason] or 0, RANK[old.reason] or 0
  if new_rank ~= old_rank then
    return new_rank > old_rank
  end
  local new_wait = new.wait < 0 and math.huge or new.wait
  local old_wait = old.wait < 0 and math.huge or old.wait
  return new_wait > old_wait
end

local told
for number, meter in ipairs(meters) do
  local no = ASK[meter.rule](meter)
  if no then
    no.meter, no.limit = number - 1, meter.limit
    if not told or tells_more(no, told) then
      told = no
    end
  end
end

if told then
  local answer = {'REFUSE', told.meter, told.reason, told.limit, told.used, told.held, told.resets_at, told.wait}
  if told.reason == 'concurrency_exhausted' or (told.held > 0 and told.reason ~= 'exceeds_capacity') then
    for _, other in ipairs(call('ZRANGE', KEYS[3], 0, AT_REFUSAL - 1)) do
      answer[#answer + 1] = other
    end
  end
  return answer
end

-- Takes from all meters.
local write = {}
local function set(name, value)
  write[#write + 1], write[#write + 2] = name, digits(value)
end
local expires = now + whole(ARGV[4])
local charge = whole(ARGV[5])
local answer, takes = {'ADMIT', now, expires}, {}
for number, meter in ipairs(meters) do
  local key, wanted = meter.id, meter.wanted
  local slice_start, period_start, extra, level = 0, 0, 0, 0
  if meter.rule == 'bucket' then
    level = meter.level_now - wanted * MICRO
    set(key .. '/level', level)
    -- A clock that went backwards must not be paid for the same time twice.
    set(key .. '/at', max(now, meter.at))
    set(key .. '/rate', meter.rate)
    extra = meter.limit
  elseif meter.rule == 'window' then
    set(key .. '/held', meter.held + wanted)
    slice_start, extra = meter.slice_start, meter.slice_ms
  elseif meter.rule == 'month' then
    set(key .. '/held/' .. digits(meter.starts), meter.held + wanted)
    slice_start, period_start = meter.starts, meter.starts
  elseif meter.rule == 'balance' then
    set(key .. '/held', meter.held + wanted)
  else
    set(key .. '/held', meter.live + wanted)
  end
  takes[number] = {key, meter.rule, meter.metric, wanted, slice_start, period_start, extra}
  answer[#answer + 1], answer[#answer + 2], answer[#answer + 3] = slice_start, period_start, level
end
if own then
  -- It was remembered as expired; the new hold takes its place.
  live = live - 1
end
set('live', live + 1)
call('HSET', KEYS[1], unpack(write))
call('HINCRBY', KEYS[1], 'charge', digits(charge))
call('HSET', KEYS[2], id, packed_of({admitted = now, charge = charge, takes = takes}))
call('ZADD', KEYS[3], digits(expires), id)
return answer
