-- Take or keep the lease ($1) for $3, unless another holder's has not expired yet.
INSERT INTO leader_leases (name, holder, expires)
VALUES ($1::text, $2::text, statement_timestamp() + $3::interval)
ON CONFLICT (name) DO UPDATE
SET holder = excluded.holder, expires = excluded.expires
WHERE leader_leases.holder = excluded.holder OR leader_leases.expires < statement_timestamp()
RETURNING holder
