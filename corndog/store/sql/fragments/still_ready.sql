CASE
        WHEN t.queue = candidate.queue AND t.rank = candidate.rank AND t.current_state = candidate.state
            AND t.phase = 'ready'
        THEN true
    END
