"""What a run came to: totals, read back from the archive, and their table."""

from dataclasses import asdict, dataclass, field
from typing import Any

from corndog_calls import Corndog, Task
from corpus import from_payload, printable
from rich.table import Table


@dataclass(kw_only=True)
class Report:
    """Totals of one run; `files` are those counted, `skipped` those that couldn't be read."""

    queue: str
    files: int = 0
    lines: int = 0
    words: int = 0
    bytes: int = 0
    distinct_hashes: int = 0
    seconds: float = 0.0
    tasks_per_second: float = 0.0
    workers_replaced: int = 0
    skipped: list[dict[str, str]] = field(default_factory=list)
    missing: int = 0

    def as_json(self) -> dict[str, Any]:
        """Give the report as JSON values."""
        return asdict(self)

    def as_table(self) -> Table:
        """Give the figures as a table."""
        table = Table(title=f"queue {self.queue}", show_header=False)
        table.add_column()
        table.add_column(justify="right")
        for name in ("files", "lines", "words", "bytes", "distinct_hashes"):
            table.add_row(name.replace("_", " "), f"{getattr(self, name):,}")
        table.add_row("skipped", f"{len(self.skipped):,}")
        table.add_row("workers replaced", f"{self.workers_replaced:,}")
        table.add_row("seconds", f"{self.seconds:.1f}")
        table.add_row("tasks/s", f"{self.tasks_per_second:.1f}")
        return table


async def read_report(corndog: Corndog, queue: str, ids: set[str], seconds: float, workers_replaced: int) -> Report:
    """Add up the results of the given tasks; other tasks of the queue (of earlier runs) don't count."""
    report = Report(queue=queue, seconds=round(seconds, 3), workers_replaced=workers_replaced)
    hashes: set[str] = set()
    unseen = set(ids)
    async for task in corndog.archived(queue):
        if task["id"] not in unseen:
            continue
        unseen.remove(task["id"])
        add_result(report, hashes, task)
    report.missing = len(unseen)
    report.distinct_hashes = len(hashes)
    report.tasks_per_second = round(len(ids) / seconds, 1) if seconds else 0.0
    report.skipped.sort(key=lambda skipped: skipped["path"])
    return report


def add_result(report: Report, hashes: set[str], task: Task) -> None:
    """Add one finished task to the totals."""
    result = task.get("result")
    if task["phase"] != "completed" or result is None:
        report.skipped.append({"path": f"task {task['id']}", "error": f"it ended {task['phase']}"})
    elif "error" in result:
        report.skipped.append({"path": printable(from_payload(result)), "error": result["error"]})
    else:
        report.files += 1
        report.lines += result["lines"]
        report.words += result["words"]
        report.bytes += result["bytes"]
        hashes.add(result["sha256"])
