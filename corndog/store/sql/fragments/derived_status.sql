CASE
            WHEN EXISTS (SELECT FROM tasks AS t WHERE t.job_id = j.id)
                THEN CASE
                    WHEN EXISTS (SELECT FROM tasks AS t WHERE t.job_id = j.id AND t.delivery > 0)
                        OR EXISTS (
                            SELECT FROM archived_tasks AS t
                            WHERE t.job_id = j.id AND (t.phase = 'completed' OR t.phase = 'failed' OR t.delivery > 0)
                        )
                        THEN 'running'
                    ELSE 'pending'
                END
            WHEN EXISTS (SELECT FROM archived_tasks AS t WHERE t.job_id = j.id AND t.phase = 'failed') THEN 'failed'
            WHEN EXISTS (SELECT FROM archived_tasks AS t WHERE t.job_id = j.id AND t.phase = 'canceled')
                THEN 'canceled'
            ELSE 'completed'
        END
