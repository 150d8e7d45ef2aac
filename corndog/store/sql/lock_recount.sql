-- Wait until no other recount is under way: two that see the same difference would both mend it. A lease that nobody
-- holds serves as the lock.
INSERT INTO leader_leases AS l (name, holder, expires)
VALUES ('recount', '', statement_timestamp())
ON CONFLICT (name) DO UPDATE
SET expires = excluded.expires
