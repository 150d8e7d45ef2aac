-- Look how many tasks windows hold, and take none.
-- KEYS: W and E of each window in turn. Answers for each how many, or -1 if that is not known.
local held = {}
for w = 1, #KEYS / 2 do
    local edge = redis.call('GET', KEYS[2 * w])
    local number = redis.call('ZCARD', KEYS[2 * w - 1])
    held[w] = (edge and (number > 0 or edge == 'z')) and number or -1
end
return held
