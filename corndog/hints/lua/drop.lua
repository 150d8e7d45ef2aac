-- Drop leases: for a while they can't be kept again.
-- KEYS: the leases. ARGV: for how long (ms).
for _, key in ipairs(KEYS) do
    redis.call('SET', key, '', 'PX', ARGV[1])
end
