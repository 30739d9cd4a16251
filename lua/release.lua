-- Ends a hold of which nothing was used, by its name alone. A place in the rate of requests is not given back.
--
-- KEYS  1 counters, 2 holds, 3 when holds expire
-- ARGV  1 instant or -1, 2 epoch, 3 request id, 4 release, or undo: as if it had never been
-- Reply DONE id, if it was there. COLD, STALE: nothing was done.

local now = clock(ARGV[1])
local state = call('HMGET', KEYS[1], 'epoch', 'live')
local cold = not_warm(KEYS, ARGV[2], state[1], state[2])
if cold then
  return cold
end
return {'DONE', unpack(end_holds(KEYS, now, {{id = ARGV[3], how = ARGV[4]}}))}
