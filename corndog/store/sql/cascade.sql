-- Cancel all that waits for these tasks ($1), which have failed or were canceled, directly or through others: down to
-- tasks that run all the same. What those wait for is locked with the rest, in order of the ids. Where a task has been
-- canceled already, so has what waits for it. Each row brings its reason along: to join two sets of ten thousand rows,
-- of which neither has an index, takes minutes.
WITH RECURSIVE doomed AS (
    SELECT d.child_id AS id, d.parent_id AS origin_id
    FROM task_dependencies AS d
    JOIN tasks AS t ON t.id = d.child_id
    WHERE d.parent_id = ANY($1::uuid[]) AND NOT d.run_on_failure
    UNION
    SELECT d.child_id, doomed.origin_id
    FROM doomed
    JOIN task_dependencies AS d ON d.parent_id = doomed.id
    JOIN tasks AS t ON t.id = d.child_id
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
    SELECT reason.id, reason.name AS origin_name, reason.phase AS origin_phase
    FROM reason
    UNION
    SELECT d.child_id, NULL::text, NULL::text
    FROM edge
    JOIN task_dependencies AS d ON d.parent_id = edge.parent_id
    WHERE d.run_on_failure AND NOT d.done
),
locked AS (
    SELECT t.id, concerned.origin_name, concerned.origin_phase
    FROM tasks AS t
    JOIN concerned ON concerned.id = t.id
    ORDER BY t.id
    FOR UPDATE OF t
),
ended AS (
    DELETE FROM tasks AS t
    USING locked
    WHERE t.id = locked.id AND locked.origin_name IS NOT NULL
        AND CASE WHEN t.phase = 'parked' AND t.due_time IS NULL THEN true END
    RETURNING {record}, locked.origin_name, locked.origin_phase
),
archived AS (
    {archive}
    FROM ended AS t
    CROSS JOIN LATERAL (
        SELECT
            'canceled' AS phase, 'canceled' AS outcome, 0 AS lost, 0 AS attempt, NULL::bytea AS request,
            ARRAY[]::uuid[] AS next_task_ids, 'parent' AS canceled_by,
            'the task ' || t.origin_name || ', which this one depends on, ended as ' || t.origin_phase AS error
    ) AS ending
    RETURNING *
),
counted AS (
    {count_out:ended}
)
SELECT {record}
FROM archived AS t
