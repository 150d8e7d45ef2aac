"""What may be forgotten: which tasks are ready, who waits for them, and which leases stand. All of it is in Redis.

Nothing here is relied on: a hint that is wrong costs a look, and one that is missing costs a wait. Whatever goes wrong
with Redis is an `Away`, and every caller has another way.
"""
