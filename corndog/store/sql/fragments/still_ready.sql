CASE
        WHEN t.queue = candidate.queue AND t.rank = candidate.rank AND t.current_state = $10::text
            AND t.phase = 'ready'
        THEN true
    END
