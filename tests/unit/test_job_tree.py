"""A job as a tree: which tasks are drawn, where, and how."""

from rich.console import Console
from rich.style import Style
from rich.text import Text

from corndog.cli.graph import STYLES, Depends, Graph, Job, Phase, Shown, Task, draw
from corndog.cli.output import one_line


def task(name: str, *parents: str, phase: Phase = Phase.READY) -> Task:
    return Task(
        name=name,
        phase=phase,
        current_state=phase.value,
        held_by=None,
        attempt=0,
        max_attempts=None,
        last_error=None,
        canceled_by=None,
        depends_on=[Depends(parent, done=False) for parent in parents],
    )


def lines(
    tasks: list[Task], *, depth: int | None = None, phases: set[Phase] | None = None, limit: int = 100
) -> list[str]:
    job = Job(id="id", name="job", status="running", submit_time="", end_time=None, task_count=len(tasks))
    shown = Shown(depth=depth, phases=frozenset(phases or Phase), limit=limit)
    console = Console(width=10_000, soft_wrap=True, markup=False)
    with console.capture() as rendered:
        console.print(draw(Graph(job=job, phase_counts={}, tasks=tasks), shown))
    return [line.rstrip() for line in rendered.get().splitlines()]


def test_each_phase_has_a_colour_of_its_own() -> None:
    colours = {Style.parse(STYLES[phase]).color for phase in Phase}
    assert len(colours - {None}) == len(Phase)
    for phase in Phase:
        job = Job(id="id", name=None, status="running", submit_time="", end_time=None, task_count=1)
        shown = Shown(depth=None, phases=frozenset(Phase), limit=1)
        [branch] = draw(Graph(job=job, phase_counts={}, tasks=[task("a", phase=phase)]), shown).children
        assert isinstance(branch.label, Text)
        assert [(span.start, span.end, span.style) for span in branch.label.spans] == [
            (3, 3 + len(phase.value), STYLES[phase])
        ]


def test_a_task_stands_once_below_the_last_of_its_parents() -> None:
    drawn = lines([task("a"), task("b"), task("c", "b", "a"), task("d", "a")])

    assert drawn == [
        "job",
        "├── a  ready",
        "│   └── d  ready",
        "└── b  ready",
        "    └── c  ready  after b, a (0 of 2 done)",
    ]


def test_what_matters_is_drawn_with_what_leads_to_it() -> None:
    chain = [task("0"), *(task(str(number), str(number - 1)) for number in range(1, 6))]
    chain[3].phase = Phase.FAILED

    drawn = lines([*chain, task("x"), task("y")], limit=4)

    assert [line.split()[-2] for line in drawn[1:5]] == ["0", "1", "2", "3"]
    assert drawn[5:] == ["│               └── … 2 more: 2 ready", "└── … 2 more: 2 ready"]
    assert lines(chain, limit=3)[-1] == "            └── … 3 more: 1 failed, 2 ready"


def test_a_job_of_one_long_chain_and_one_with_ten_thousand_tasks() -> None:
    chain = [task("0"), *(task(str(number), str(number - 1)) for number in range(1, 10_000))]
    chain[-1].phase = Phase.FAILED
    assert len(lines(chain, limit=50)) == 52
    assert len(lines(chain, limit=50, depth=7)) == 9
    assert lines(chain, phases={Phase.FAILED}, limit=50) == ["job", "└── … 1 more: 1 failed"]


def test_a_name_moves_no_cursor() -> None:
    assert one_line("a\x1b[2Jb\u202ec") == "a\\x1b[2Jb\\u202ec"
    assert one_line("first\nsecond") == "first…"
    assert one_line("x" * 100) == "x" * 100
    assert one_line("x" * 101) == "x" * 99 + "…"
    assert one_line("") == ""
