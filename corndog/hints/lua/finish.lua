-- Finish the refill of windows with what was read, and with what was offered since it began.
-- KEYS: W, E, R, L of each window in turn.
-- ARGV: token; cap; how many rows were read at most; how long W and E live at most (ms, ms); for each window after
-- which edge was read (empty: from the start); for each window how many members; the members of all windows.
-- Answers for each window 1 if this refill counted, else 0.
local token, cap, limit, w_life, e_life = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4], ARGV[5]
local windows = #KEYS / 4
local counted = {}
local at = 5 + 2 * windows
for w = 1, windows do
    local W, E, R, L = unpack(KEYS, 4 * w - 3, 4 * w)
    local after, rows = ARGV[5 + w], tonumber(ARGV[5 + windows + w])
    counted[w] = 0
    if redis.call('GET', R) == token then
        redis.call('DEL', R)
        -- What was read after an edge says nothing if the edge has moved since.
        if after == '' or redis.call('GET', E) == after then
            if after == '' then
                redis.call('DEL', W)
            end
            if redis.call('EXISTS', L) == 1 then
                redis.call('ZUNIONSTORE', W, 2, W, L)
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
            local edge = 'z'
            if rows == limit then
                -- There may be more rows, and of those after the last nothing is known.
                edge = ARGV[at + rows]
                redis.call('ZREMRANGEBYLEX', W, '(' .. edge, '+')
            end
            if redis.call('ZCARD', W) > cap then
                redis.call('ZREMRANGEBYRANK', W, cap, -1)
                edge = redis.call('ZRANGE', W, -1, -1)[1]
            end
            redis.call('SET', E, edge, 'PX', e_life)
            redis.call('PEXPIRE', W, w_life)
            counted[w] = 1
        end
        redis.call('DEL', L)
    end
    at = at + rows
end
return counted
