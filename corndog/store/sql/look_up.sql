-- Find a task wherever it is, with what a refused or repeated write must be told: the token of its last writer, how
-- it ended, and how its delivery $2 ended if it lives on.
SELECT
    {record},
    t.write_token,
    NULL::bytea AS end_request, NULL::uuid[] AS next_task_ids,
    run.outcome AS run_outcome, run.request AS run_request
FROM tasks AS t
LEFT JOIN task_runs AS run ON run.task_id = t.id AND run.delivery = $2::int8
WHERE t.id = $1::uuid
UNION ALL
SELECT
    {record},
    NULL::uuid,
    t.request, t.next_task_ids,
    run.outcome, run.request
FROM archived_tasks AS t
LEFT JOIN task_runs AS run ON run.task_id = t.id AND run.delivery = $2::int8
WHERE t.id = $1::uuid
