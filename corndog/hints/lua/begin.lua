-- Begin the refill of each window that none is under way of.
-- KEYS: R and L of each window in turn. ARGV: token, and how long it holds (ms).
-- Answers for each window 1 if its refill has begun, else 0.
local begun = {}
for w = 1, #KEYS / 2 do
    begun[w] = 0
    if redis.call('SET', KEYS[2 * w - 1], ARGV[1], 'NX', 'PX', ARGV[2]) then
        redis.call('DEL', KEYS[2 * w])
        begun[w] = 1
    end
end
return begun
