"""What must hold of all jobs in a database at rest, each rule as a query for what breaks it."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncpg

_OF_ITS_PARENTS = """
    FROM task_dependencies AS d
    LEFT JOIN archived_tasks AS parent ON parent.id = d.parent_id
    WHERE d.child_id = t.id
"""

RULES = {
    "waits for as many as have not ended": f"""
        SELECT t.name FROM tasks AS t
        WHERE t.job_id IS NOT NULL AND t.waiting_on <> (SELECT count(*) {_OF_ITS_PARENTS} AND NOT d.done)
    """,
    "is blocked as long as it waits": """
        SELECT t.name FROM tasks AS t
        WHERE (t.waiting_on > 0) <> (t.phase = 'parked' AND t.due_time IS NULL)
            OR (t.waiting_on > 0) <> (t.current_state = t.home_state || '-blocked')
    """,
    "does not wait for what has ended": f"""
        SELECT t.name FROM tasks AS t
        WHERE EXISTS (SELECT {_OF_ITS_PARENTS} AND NOT d.done AND parent.id IS NOT NULL)
    """,
    "waits for what lives, if it waits": f"""
        SELECT t.name FROM tasks AS t
        WHERE t.waiting_on > 0 AND EXISTS (SELECT {_OF_ITS_PARENTS} AND d.done AND parent.id IS NULL)
    """,
    "does not live under what has failed or was canceled": f"""
        SELECT t.name FROM tasks AS t
        WHERE EXISTS (SELECT {_OF_ITS_PARENTS} AND NOT d.run_on_failure AND parent.phase IN ('failed', 'canceled'))
    """,
    "has not begun before its parents": f"""
        SELECT t.name FROM archived_tasks AS t
        WHERE t.phase IN ('completed', 'failed')
            AND EXISTS (SELECT {_OF_ITS_PARENTS} AND NOT d.run_on_failure AND parent.phase IS DISTINCT FROM 'completed')
    """,
    "is canceled by a parent only under one that stops it": f"""
        SELECT t.name FROM archived_tasks AS t
        WHERE t.canceled_by = 'parent' AND NOT EXISTS (
            SELECT {_OF_ITS_PARENTS} AND NOT d.run_on_failure AND parent.phase IN ('failed', 'canceled')
        )
    """,
    "is live or archived, not both": "SELECT t.name FROM tasks AS t JOIN archived_tasks AS a ON a.id = t.id",
    "has all of its tasks": """
        SELECT j.id FROM jobs AS j
        WHERE j.task_count <> (SELECT count(*) FROM tasks AS t WHERE t.job_id = j.id)
            + (SELECT count(*) FROM archived_tasks AS t WHERE t.job_id = j.id)
    """,
    "has a history without gaps": """
        SELECT t.name
        FROM (
            SELECT id, name, delivery, claim_time FROM tasks
            UNION ALL
            SELECT id, name, delivery, claim_time FROM archived_tasks
        ) AS t
        LEFT JOIN task_runs AS run ON run.task_id = t.id
        GROUP BY t.id, t.name, t.delivery, t.claim_time
        HAVING count(run.delivery) + (t.claim_time IS NOT NULL)::int4 <> t.delivery
            OR coalesce(max(run.delivery), 0) + (t.claim_time IS NOT NULL)::int4 <> t.delivery
    """,
}

STORED_STATUS = """
    SELECT j.id FROM jobs AS j
    WHERE j.status <> CASE
        WHEN EXISTS (SELECT FROM tasks AS t WHERE t.job_id = j.id) THEN
            CASE
                WHEN EXISTS (SELECT FROM tasks AS t WHERE t.job_id = j.id AND t.delivery > 0) OR EXISTS (
                    SELECT FROM archived_tasks AS t
                    WHERE t.job_id = j.id AND (t.delivery > 0 OR t.phase <> 'canceled')
                ) THEN 'running'
                ELSE 'pending'
            END
        WHEN EXISTS (SELECT FROM archived_tasks AS t WHERE t.job_id = j.id AND t.phase = 'failed') THEN 'failed'
        WHEN EXISTS (SELECT FROM archived_tasks AS t WHERE t.job_id = j.id AND t.phase = 'canceled') THEN 'canceled'
        ELSE 'completed'
    END OR (j.end_time IS NULL) <> (j.status IN ('pending', 'running'))
"""


async def broken_rules(connection: "asyncpg.Connection[asyncpg.Record]") -> dict[str, list[str]]:
    """Tell which rules are broken, and by what."""
    found = {rule: [str(row[0]) for row in await connection.fetch(query)] for rule, query in RULES.items()}
    return {rule: names for rule, names in found.items() if names}
