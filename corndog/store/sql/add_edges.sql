-- Write dependencies between tasks of a new job.
INSERT INTO task_dependencies (child_id, parent_id, done, run_on_failure)
SELECT item.child_id, item.parent_id, false, item.run_on_failure
FROM unnest($1::uuid[], $2::uuid[], $3::bool[]) AS item (child_id, parent_id, run_on_failure)
