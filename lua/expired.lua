-- Names holds that have expired, the oldest first; those that were remembered long enough are forgotten.
--
-- KEYS  1 counters, 2 holds, 3 when holds expire
-- ARGV  1 instant or -1, 2 epoch, 3 how many at most
-- Reply DONE, then id and charge of each. COLD, STALE: nothing is known.

local now = clock(ARGV[1])
local state = call('HMGET', KEYS[1], 'epoch', 'live')
local cold = not_warm(KEYS, ARGV[2], state[1], state[2])
if cold then
  return cold
end
local answer = {'DONE'}
for _, id in ipairs(call('ZRANGEBYSCORE', KEYS[3], '-inf', digits(now), 'LIMIT', 0, whole(ARGV[3]))) do
  local hold = unpacked(call('HGET', KEYS[2], id))
  if hold.over then
    call('HDEL', KEYS[2], id)
    call('ZREM', KEYS[3], id)
    call('HINCRBY', KEYS[1], 'live', -1)
  else
    answer[#answer + 1], answer[#answer + 2] = id, hold.charge
  end
end
return answer
