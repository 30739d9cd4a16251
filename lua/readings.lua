-- Says how each meter stands.
--
-- KEYS  1 counters, 2 holds, 3 when holds expire
-- ARGV  1 instant or -1, 2 epoch, 3 number of meters, then the meters as for admit
-- Reply STANDS instant cut, then for each meter: limit, used, held, level in millionths, end of its period or -1
--       COLD, UNKNOWN meters, STALE: as for admit

local now = clock(ARGV[1])
local meters = meters_of(ARGV, 4, whole(ARGV[3]), now)
local _, cold = read(KEYS, ARGV[2], meters)
if cold then
  return cold
end
local answer = {'STANDS', now, known(call('HGET', KEYS[1], 'cut')) or 0}
for _, meter in ipairs(meters) do
  local limit, level = meter.limit, 0
  if meter.rule == 'bucket' then
    level = refilled(meter.level, meter.at, meter.rate, meter.limit, now)
  elseif meter.rule == 'balance' then
    limit = meter.credited
  end
  for _, value in ipairs({limit, meter.used or 0, meter.held or meter.live or 0, level, meter.ends or -1}) do
    answer[#answer + 1] = value
  end
end
return answer
