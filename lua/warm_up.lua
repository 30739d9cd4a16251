-- Writes counters that were read from the books: of the whole tenant under a new epoch, or of meters that are unknown.
--
-- KEYS  1 counters, 2 holds, 3 when holds expire
-- ARGV  1 epoch, 2 TENANT or METERS or CREDIT, 3 the meters and holds as JSON:
--       meters: id, rule, and level at rate | slice_ms oldest slices [start, used] | period used | credited used
--       holds: id admitted expires charge takes, each take as admit keeps it
-- Reply DONE. KEPT: another process was first. LOST: a live hold has taken from a meter that is not there, so that
--       what is missing was there. COLD, STALE: the counters are of another epoch.

local epoch = whole(ARGV[1])
local news = cjson.decode(ARGV[3])
local write, held = {}, {}
local function set(name, value)
  write[#write + 1], write[#write + 2] = name, digits(value)
end

local function set_meter(meter)
  local id = meter.id
  if meter.rule == 'bucket' then
    set(id .. '/level', meter.level)
    set(id .. '/at', meter.at)
    set(id .. '/rate', meter.rate)
  elseif meter.rule == 'window' then
    local sum = 0
    for _, slice in ipairs(meter.slices) do
      set(id .. '/' .. digits(slice[1]), slice[2])
      if slice[1] >= meter.oldest then
        sum = sum + slice[2]
      end
    end
    set(id .. '/used', sum)
    set(id .. '/oldest', meter.oldest)
    set(id .. '/held', held[id .. '/held'] or 0)
  elseif meter.rule == 'month' then
    local period = digits(meter.period)
    set(id .. '/' .. period, meter.used)
    set(id .. '/held/' .. period, held[id .. '/held/' .. period] or 0)
  elseif meter.rule == 'balance' then
    set(id .. '/credited', meter.credited)
    set(id .. '/used', meter.used)
    set(id .. '/held', held[id .. '/held'] or 0)
  else
    set(id .. '/held', held[id .. '/held'] or 0)
  end
end

local state = redis.pcall('HMGET', KEYS[1], 'epoch', 'live')
local cold
if state.err then
  cold = {'COLD'}
else
  local checked, answer = pcall(not_warm, KEYS, ARGV[1], state[1], state[2])
  cold = checked and answer or (not checked and {'COLD'}) or nil
end
if cold and cold[1] == 'STALE' then
  return cold
end

if ARGV[2] == 'TENANT' then
  if not cold then
    return {'KEPT'}
  end
  call('DEL', KEYS[1], KEYS[2], KEYS[3])
  local charge = 0
  for _, hold in ipairs(news.holds) do
    for _, take in ipairs(hold.takes) do
      if take[2] ~= 'bucket' then
        local name = take[1] .. '/held'
        if take[2] == 'month' then
          name = name .. '/' .. digits(take[6])
        end
        held[name] = (held[name] or 0) + take[4]
      end
    end
    charge = charge + hold.charge
    local kept = {admitted = hold.admitted, charge = hold.charge, takes = hold.takes}
    call('HSET', KEYS[2], hold.id, packed_of(kept))
    call('ZADD', KEYS[3], digits(hold.expires), hold.id)
  end
  set('epoch', epoch)
  set('live', #news.holds)
  set('charge', charge)
  set('cut', 0)
  for _, meter in ipairs(news.meters) do
    set_meter(meter)
  end
elseif cold then
  return cold
elseif ARGV[2] == 'CREDIT' then
  -- What was paid in has changed; where the balance is unknown, it stays so.
  for _, meter in ipairs(news.meters) do
    if call('HEXISTS', KEYS[1], meter.id .. '/credited') == 1 then
      set(meter.id .. '/credited', meter.credited)
    end
  end
else
  -- A hold that took from a meter found its counter: if it is not there now, it was lost.
  local taken = {}
  for _, packed in ipairs(call('HVALS', KEYS[2])) do
    for _, take in ipairs(unpacked(packed).takes) do
      taken[take[1] .. (take[2] == 'month' and digits(take[6]) or '')] = true
    end
  end
  for _, meter in ipairs(news.meters) do
    local fields = {}
    meter.starts = meter.period
    fields_of(meter, fields)
    local is_known = counter(meter, call('HMGET', KEYS[1], unpack(fields)), 1)
    if not is_known and taken[meter.id .. (meter.rule == 'month' and digits(meter.period) or '')] then
      return {'LOST'}
    end
  end
  local again = cjson.decode(ARGV[3])
  for _, meter in ipairs(again.meters) do
    local fields = {}
    local probe = {id = meter.id, rule = meter.rule, starts = meter.period}
    fields_of(probe, fields)
    if not counter(probe, call('HMGET', KEYS[1], unpack(fields)), 1) then
      set_meter(meter)
    end
  end
end
for at = 1, #write, 1000 do
  call('HSET', KEYS[1], unpack(write, at, min(at + 999, #write)))
end
return {'DONE'}
