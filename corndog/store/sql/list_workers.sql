-- List a page ($2) of workers by their names, after $1: those that were seen within $3 (null: all), by a heartbeat or
-- a claim of what they hold still. Each comes with the first ($4) of its holds, one in a row, and with what there is to
-- say of all of them. Who holds something is found by jumping along the index from one name to the next.
WITH RECURSIVE {known_workers}
SELECT
    page.id, w.first_seen, w.last_seen, w.drains, w.metadata, statement_timestamp(),
    hold.number, hold.earliest, hold.latest,
    hold.id, hold.queue, hold.current_state, hold.kind, hold.delivery, hold.claim_time, hold.due_time
FROM page
LEFT JOIN workers AS w ON w.id = page.id
LEFT JOIN LATERAL (
    SELECT
        t.id, t.queue, t.current_state, t.kind, t.delivery, t.claim_time, t.due_time,
        count(*) OVER () AS number, min(t.claim_time) OVER () AS earliest, max(t.claim_time) OVER () AS latest
    FROM tasks AS t
    WHERE t.held_by = page.id AND t.phase = 'held'
    ORDER BY t.claim_time, t.id
    LIMIT $4::int8
) AS hold ON true
ORDER BY page.id, hold.claim_time, hold.id
