-- Delete the totals that have come to nothing. Who else has taken one is adding to it: it is passed over.
WITH zero AS (
    SELECT c.queue, c.current_state
    FROM queue_state_counts AS c
    WHERE c.tasks = 0
    ORDER BY c.queue, c.current_state
    FOR UPDATE SKIP LOCKED
)
DELETE FROM queue_state_counts AS c
USING zero
WHERE c.queue = zero.queue AND c.current_state = zero.current_state AND c.tasks = 0
