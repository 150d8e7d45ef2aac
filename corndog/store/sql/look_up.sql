-- Find tasks wherever they are, with what refused or repeated writes must be told: the token of each one's last writer,
-- how it ended, and how the delivery asked for ended if the task lives on.
WITH item AS (
    SELECT *
    FROM unnest($1::uuid[], $2::int8[]) WITH ORDINALITY AS item (id, delivery, place)
)
SELECT
    {record},
    t.write_token,
    NULL::bytea AS end_request, NULL::uuid[] AS next_task_ids,
    run.outcome AS run_outcome, run.request AS run_request,
    item.place
FROM item
JOIN tasks AS t ON t.id = item.id
LEFT JOIN task_runs AS run ON run.task_id = item.id AND run.delivery = item.delivery
UNION ALL
SELECT
    {record},
    NULL::uuid,
    t.request, t.next_task_ids,
    run.outcome, run.request,
    item.place
FROM item
JOIN archived_tasks AS t ON t.id = item.id
LEFT JOIN task_runs AS run ON run.task_id = item.id AND run.delivery = item.delivery
