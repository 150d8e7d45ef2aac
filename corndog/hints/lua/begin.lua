-- Begin the refill of each window that none is under way of.
-- KEYS: E, R and L of each window in turn. ARGV: token, and how long it holds (ms).
-- Answers for each window the edge (empty: unknown) if its refill has begun, else 0.
local begun = {}
for w = 1, #KEYS, 3 do
    local answer = 0
    if redis.call('SET', KEYS[w + 1], ARGV[1], 'NX', 'PX', ARGV[2]) then
        redis.call('DEL', KEYS[w + 2])
        answer = redis.call('GET', KEYS[w]) or ''
    end
    begun[#begun + 1] = answer
end
return begun
