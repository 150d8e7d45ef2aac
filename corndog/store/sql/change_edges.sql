-- Set whether dependencies are done.
UPDATE task_dependencies AS d
SET done = item.done
FROM unnest($1::uuid[], $2::uuid[], $3::bool[]) AS item (child_id, parent_id, done)
WHERE d.child_id = item.child_id AND d.parent_id = item.parent_id
