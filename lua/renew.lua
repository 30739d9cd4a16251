-- Makes a hold live on.
--
-- KEYS  1 counters, 2 holds, 3 when holds expire
-- ARGV  1 instant or -1, 2 epoch, 3 request id, 4 life of a hold in ms
-- Reply DONE expiry, or DONE alone when the hold is not there. COLD, STALE: nothing was done.

local now = clock(ARGV[1])
local state = call('HMGET', KEYS[1], 'epoch', 'live')
local cold = not_warm(KEYS, ARGV[2], state[1], state[2])
if cold then
  return cold
end
local packed = call('HGET', KEYS[2], ARGV[3])
if not packed or unpacked(packed).over then
  return {'DONE'}
end
local expires = max(tonumber(call('ZSCORE', KEYS[3], ARGV[3])), now + whole(ARGV[4]))
call('ZADD', KEYS[3], digits(expires), ARGV[3])
return {'DONE', expires}
