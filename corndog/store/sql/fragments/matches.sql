t.id = item.id
        AND (item.queue IS NULL OR t.queue = item.queue)
        AND (item.current_state IS NULL OR t.current_state = item.current_state)
        AND CASE
            WHEN item.delivery IS NULL THEN t.phase = 'ready' OR (t.phase = 'parked' AND t.due_time IS NOT NULL)
            ELSE t.phase = 'held' AND t.delivery = item.delivery
        END
