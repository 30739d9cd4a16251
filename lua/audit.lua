-- Tells all that is counted, for a comparison with the books.
--
-- KEYS  1 counters, 2 holds, 3 when holds expire
-- ARGV  1 epoch
-- Reply AUDIT cut, number of holds, their names, then field and value of every slice, period and balance that is
--       counted, and of every held amount that is not the sum of the holds, as `field!`, with that sum.
--       COLD, STALE: nothing is counted.

local state = call('HMGET', KEYS[1], 'epoch', 'live', 'cut')
local cold = not_warm(KEYS, ARGV[1], state[1], state[2])
if cold then
  return cold
end
local names, sums = {}, {}
local holds = call('HGETALL', KEYS[2])
for at = 1, #holds, 2 do
  names[#names + 1] = holds[at]
  local hold = unpacked(holds[at + 1])
  for _, take in ipairs(hold.takes) do
    if take[2] ~= 'bucket' and not hold.over then
      local name = take[1] .. '/held' .. (take[2] == 'month' and '/' .. digits(take[6]) or '')
      sums[name] = (sums[name] or 0) + take[4]
    end
  end
end
local answer = {'AUDIT', known(state[3]) or 0, #names}
for _, name in ipairs(names) do
  answer[#answer + 1] = name
end
local all = call('HGETALL', KEYS[1])
for at = 1, #all, 2 do
  local name, value = all[at], known(all[at + 1])
  local last = string.match(name, '/([^/]+)$')
  if last and value then
    if string.find(name, '/held') then
      if value ~= (sums[name] or 0) then
        answer[#answer + 1], answer[#answer + 2] = name .. '!', digits(sums[name] or 0)
        answer[#answer + 1], answer[#answer + 2] = name, digits(value)
      end
    elseif tonumber(last) or last == 'used' or last == 'credited' or last == 'oldest' then
      answer[#answer + 1], answer[#answer + 2] = name, digits(value)
    end
  end
end
return answer
