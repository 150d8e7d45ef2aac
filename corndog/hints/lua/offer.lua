-- Offer ready tasks to windows, and tell other servers about them.
-- KEYS: W, E, R, L of each window in turn.
-- ARGV: cap of W; cap of L; limit; how long W and L live at most (ms, ms); for each window how many members; the
-- members of all windows; then channels and messages in turn.
-- With a limit, the members of a window are the first ready tasks that the database has. If there are as many as that,
-- nothing is known of those after them.
local cap, l_cap, limit, w_life, l_life = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4], ARGV[5]
local windows = #KEYS / 4

local function add(key, members)
    -- Lua can pass a few thousand arguments at once, no more.
    for start = 1, #members, 1000 do
        local scored = {}
        for i = start, math.min(start + 999, #members) do
            scored[#scored + 1] = 0
            scored[#scored + 1] = members[i]
        end
        redis.call('ZADD', key, unpack(scored))
    end
end

local at = 5 + windows
for w = 1, windows do
    local W, E, R, L = unpack(KEYS, 4 * w - 3, 4 * w)
    local edge = redis.call('GET', E)
    local all, within = {}, {}
    for i = at + 1, at + ARGV[5 + w] do
        all[#all + 1] = ARGV[i]
        if edge and ARGV[i] <= edge then
            within[#within + 1] = ARGV[i]
        end
    end
    at = at + ARGV[5 + w]
    if #within > 0 then
        add(W, within)
        redis.call('PEXPIRE', W, w_life)
        if redis.call('ZCARD', W) > cap then
            redis.call('ZREMRANGEBYRANK', W, cap, -1)
            edge = redis.call('ZRANGE', W, -1, -1)[1]
            redis.call('SET', E, edge, 'KEEPTTL')
        end
        if #all == limit and all[limit] < edge then
            redis.call('ZREMRANGEBYLEX', W, '(' .. all[limit], '+')
            redis.call('SET', E, all[limit], 'KEEPTTL')
        end
    end
    if redis.call('EXISTS', R) == 1 then
        -- A refill is under way: its rows may have been read before these tasks were committed.
        add(L, all)
        redis.call('ZREMRANGEBYRANK', L, l_cap, -1)
        redis.call('PEXPIRE', L, l_life)
    end
end
for i = at + 1, #ARGV, 2 do
    redis.call('PUBLISH', ARGV[i], ARGV[i + 1])
end
