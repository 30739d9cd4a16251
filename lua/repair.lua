-- Puts counters right that differ from the books, unless anything has moved since they were compared.
--
-- KEYS  1 counters, 2 holds, 3 when holds expire
-- ARGV  1 epoch, 2 the cut at which they were compared, then for each: field, value as it was found, value as it
--       should be
-- Reply DONE: they are put right. KEPT: something has moved: compare again. COLD, STALE: nothing is counted.

local state = call('HMGET', KEYS[1], 'epoch', 'live', 'cut')
local cold = not_warm(KEYS, ARGV[1], state[1], state[2])
if cold then
  return cold
end
if (known(state[3]) or 0) ~= whole(ARGV[2]) then
  return {'KEPT'}
end
local write = {}
for at = 3, #ARGV, 3 do
  if known(call('HGET', KEYS[1], ARGV[at])) ~= whole(ARGV[at + 1]) then
    return {'KEPT'}
  end
  write[#write + 1], write[#write + 2] = ARGV[at], digits(whole(ARGV[at + 2]))
end
call('HSET', KEYS[1], unpack(write))
call('HINCRBY', KEYS[1], 'cut', 1)
return {'DONE'}
