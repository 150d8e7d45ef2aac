-- Give the lease up, so that another holder need not wait for its end.
DELETE FROM leader_leases
WHERE name = $1::text AND holder = $2::text
