-- Ends holds with what was used, after their events are written. A hold that is not there changes nothing.
--
-- KEYS  1 counters, 2 holds, 3 when holds expire
-- ARGV  1 instant or -1, 2 epoch, 3 whether only expired holds are meant (1 or 0), then for each: request id, tokens,
--       charge; tokens -1 where nobody said what was used
-- Reply DONE ids: those that were there. COLD, STALE: nothing was done.

local now = clock(ARGV[1])
local state = call('HMGET', KEYS[1], 'epoch', 'live')
local cold = not_warm(KEYS, ARGV[2], state[1], state[2])
if cold then
  return cold
end
local endings = {}
for at = 4, #ARGV, 3 do
  local tokens = whole(ARGV[at + 1])
  endings[#endings + 1] = {
    id = ARGV[at], how = tokens < 0 and 'release' or 'settle', if_expired = ARGV[3] == '1',
    tokens = tokens, charge = whole(ARGV[at + 2]),
  }
end
return {'DONE', unpack(end_holds(KEYS, now, endings))}
