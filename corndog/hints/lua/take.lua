-- Take the first members over several windows, as far as they are known to be the first.
-- KEYS: W and E of each window in turn. ARGV: how many.
-- Answers the members, the number of the window (from 0) that each came from, and the numbers of the windows that have
-- to be refilled before more can be said.
local wanted = tonumber(ARGV[1])
local windows = #KEYS / 2
local bound, edges = nil, {}
for w = 1, windows do
    local edge = redis.call('GET', KEYS[2 * w]) or ''
    edges[w] = edge
    if bound == nil or edge < bound then
        bound = edge
    end
end

-- A window is read in pieces, since each may have the first of all, or none of them.
local piece = math.max(1, math.ceil(2 * wanted / windows))
local read, at = {}, {}

local function head(w)
    if at[w] > #read[w] and at[w] % piece == 1 % piece then
        for _, member in ipairs(redis.call('ZRANGE', KEYS[2 * w - 1], at[w] - 1, at[w] + piece - 2)) do
            read[w][#read[w] + 1] = member
        end
    end
    local member = read[w][at[w]]
    return member and member <= bound and member
end

-- The windows as a heap by their heads: the least is on top.
local heap, heads = {}, {}

local function sink(i)
    while true do
        local least, child = i, 2 * i
        for c = child, math.min(child + 1, #heap) do
            if heads[heap[c]] < heads[heap[least]] then
                least = c
            end
        end
        if least == i then
            return
        end
        heap[i], heap[least] = heap[least], heap[i]
        i = least
    end
end

for w = 1, windows do
    read[w], at[w] = {}, 1
    heads[w] = head(w)
    if heads[w] then
        heap[#heap + 1] = w
    end
end
for i = math.floor(#heap / 2), 1, -1 do
    sink(i)
end

local members, places = {}, {}
while #members < wanted and #heap > 0 do
    local w = heap[1]
    members[#members + 1], places[#places + 1] = heads[w], w - 1
    at[w] = at[w] + 1
    heads[w] = head(w)
    if not heads[w] then
        heap[1] = heap[#heap]
        heap[#heap] = nil
    end
    sink(1)
end
for i, member in ipairs(members) do
    redis.call('ZREM', KEYS[2 * places[i] + 1], member)
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
