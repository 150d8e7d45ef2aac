-- Cancel all that waits for these tasks ($1), which have failed or were canceled, directly or through others: down to
-- tasks that run all the same. What those wait for is locked with the rest, in order of the ids.
WITH RECURSIVE doomed AS (
    SELECT d.child_id AS id, d.parent_id AS origin_id
    FROM task_dependencies AS d
    WHERE d.parent_id = ANY($1::uuid[]) AND NOT d.run_on_failure
    UNION
    SELECT d.child_id, doomed.origin_id
    FROM doomed
    JOIN task_dependencies AS d ON d.parent_id = doomed.id
    WHERE NOT d.run_on_failure
),
reason AS (
    SELECT doomed.id, min(origin.name) AS name, min(origin.phase) AS phase
    FROM doomed
    JOIN archived_tasks AS origin ON origin.id = doomed.origin_id
    GROUP BY doomed.id
),
edge AS (
    SELECT ended.id AS parent_id
    FROM unnest($1::uuid[]) AS ended (id)
    UNION
    SELECT doomed.id
    FROM doomed
),
concerned AS (
    SELECT reason.id
    FROM reason
    UNION
    SELECT d.child_id
    FROM edge
    JOIN task_dependencies AS d ON d.parent_id = edge.parent_id
    WHERE d.run_on_failure AND NOT d.done
),
locked AS (
    SELECT t.id
    FROM tasks AS t
    JOIN concerned ON concerned.id = t.id
    ORDER BY t.id
    FOR UPDATE OF t
),
ended AS (
    DELETE FROM tasks AS t
    USING locked
    JOIN reason ON reason.id = locked.id
    WHERE t.id = locked.id AND t.phase = 'parked' AND t.due_time IS NULL
    RETURNING {record}
),
ending AS (
    SELECT
        reason.id, 'canceled' AS phase, 'canceled' AS outcome, 0 AS lost, 0 AS attempt, NULL::bytea AS request,
        ARRAY[]::uuid[] AS next_task_ids, 'parent' AS canceled_by,
        'the task ' || reason.name || ', which this one depends on, ended as ' || reason.phase AS error
    FROM reason
),
archived AS (
    {archive}
    FROM ended AS t
    JOIN ending ON ending.id = t.id
    RETURNING *
)
SELECT {record}
FROM archived AS t
