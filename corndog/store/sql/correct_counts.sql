-- Add to the counts of these queues ($1) and states ($2) what they are short of ($3).
INSERT INTO count_deltas (queue, current_state, tasks)
SELECT item.queue, item.current_state, item.tasks
FROM unnest($1::text[], $2::text[], $3::int8[]) AS item (queue, current_state, tasks)
