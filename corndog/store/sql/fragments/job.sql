j.id, j.name, j.status, j.submit_time, j.update_time, j.end_time, j.task_count, j.metadata
