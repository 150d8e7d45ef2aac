-- Finish the refill of windows with what was read, and with what was offered since it began.
-- KEYS: W, E, R, L of each window in turn.
-- ARGV: token; limit (of the rows read, and of a window); how long W and E live at most (ms, ms); for each window how
-- many members; the members of all windows.
-- Answers for each window 1 if this refill counted, else 0.
local token, limit, w_life, e_life = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4]
local windows = #KEYS / 4
local counted = {}
local at = 4 + windows
for w = 1, windows do
    local W, E, R, L = unpack(KEYS, 4 * w - 3, 4 * w)
    local rows = tonumber(ARGV[4 + w])
    counted[w] = 0
    if redis.call('GET', R) == token then
        redis.call('DEL', W, R)
        if redis.call('EXISTS', L) == 1 then
            redis.call('RENAME', L, W)
        end
        -- Lua can pass a few thousand arguments at once, no more.
        for start = at + 1, at + rows, 1000 do
            local scored = {}
            for i = start, math.min(start + 999, at + rows) do
                scored[#scored + 1] = 0
                scored[#scored + 1] = ARGV[i]
            end
            redis.call('ZADD', W, unpack(scored))
        end
        if rows < limit and redis.call('ZCARD', W) <= limit then
            redis.call('SET', E, 'z', 'PX', e_life)
        else
            redis.call('ZREMRANGEBYRANK', W, limit, -1)
            redis.call('SET', E, redis.call('ZRANGE', W, -1, -1)[1], 'PX', e_life)
        end
        redis.call('PEXPIRE', W, w_life)
        counted[w] = 1
    end
    at = at + rows
end
return counted
