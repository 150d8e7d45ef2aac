-- Take the first members over several windows, as far as they are known to be the first.
-- KEYS: W and E of each window in turn. ARGV: how many.
-- Answers the members, the number of the window (from 0) that each came from, and the numbers of the windows that have
-- to be refilled before more can be said.
local wanted = tonumber(ARGV[1])
local bound, edges = nil, {}
for i = 2, #KEYS, 2 do
    local edge = redis.call('GET', KEYS[i]) or ''
    edges[#edges + 1] = edge
    if bound == nil or edge < bound then
        bound = edge
    end
end

local found = {}
for w = 1, #edges do
    for _, member in ipairs(redis.call('ZRANGE', KEYS[2 * w - 1], 0, wanted - 1)) do
        if member > bound then
            break
        end
        found[#found + 1] = {member, w - 1}
    end
end
if #edges > 1 then
    table.sort(found, function(a, b) return a[1] < b[1] end)
end

local members, places = {}, {}
for i = 1, math.min(wanted, #found) do
    redis.call('ZREM', KEYS[2 * found[i][2] + 1], found[i][1])
    members[i], places[i] = found[i][1], found[i][2]
end

local lacking = {}
if #members < wanted and bound ~= 'z' then
    for w, edge in ipairs(edges) do
        if edge == bound then
            lacking[#lacking + 1] = w - 1
        end
    end
end
return {members, places, lacking}
