-- Forget a batch ($2) of workers that were not seen for $1 and hold nothing: those unseen for longest.
WITH prior AS (
    SELECT w.id
    FROM workers AS w
    WHERE w.last_seen < statement_timestamp() - $1::interval
        AND NOT EXISTS (SELECT FROM tasks AS t WHERE t.held_by = w.id AND t.phase = 'held')
    ORDER BY w.last_seen, w.id
    LIMIT $2::int8
    FOR UPDATE OF w SKIP LOCKED
)
DELETE FROM workers AS w
USING prior
WHERE w.id = prior.id AND CASE WHEN w.last_seen < statement_timestamp() - $1::interval THEN true END
RETURNING w.id
