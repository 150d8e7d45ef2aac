-- Take those of these jobs ($1) that have been $2 for $3 or longer. Who else has taken one may be reviving it: it is
-- passed over.
-- The guards in CASE choose no index: the rows are found by their ids, even where the statistics are old.
SELECT j.id
FROM jobs AS j
WHERE j.id = ANY($1::uuid[])
    AND CASE
        WHEN j.status = $2::text AND j.end_time <= statement_timestamp() - $3::interval
            AND j.update_time <= statement_timestamp() - $3::interval
        THEN true
    END
ORDER BY j.id
FOR UPDATE SKIP LOCKED
