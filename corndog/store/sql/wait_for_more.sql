-- Let blocked tasks wait for more others: those were revived.
UPDATE tasks AS t
SET waiting_on = t.waiting_on + item.number,
    update_time = statement_timestamp()
FROM unnest($1::uuid[], $2::int4[]) AS item (id, number)
WHERE t.id = item.id AND CASE WHEN t.phase = 'parked' AND t.due_time IS NULL THEN true END
RETURNING {record}
