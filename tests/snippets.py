"""The shell snippets of a document: commands, and the output that the document promises for them.

A block fenced as `sh` is run; a line `# -> …` in it promises what the command before it prints.
"""

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

_BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_PROMISE = "# -> "
_MARK = "====step===="


@dataclass(frozen=True)
class Step:
    """Lines of shell, and what they are to print; None if the document doesn't say."""

    script: str
    promised: str | None


def steps(document: Path, replacing: dict[str, str]) -> list[Step]:
    """Read the steps of a document, in order."""
    text = document.read_text()
    for old, new in replacing.items():
        text = text.replace(old, new)
    found: list[Step] = []
    for block in _BLOCK.findall(text):
        script: list[str] = []
        for line in block.splitlines():
            if line.startswith(_PROMISE):
                found.append(Step("\n".join(script), line.removeprefix(_PROMISE)))
                script = []
            else:
                script.append(line)
        if any(script):
            found.append(Step("\n".join(script), None))
    return found


def run(wanted: list[Step]) -> list[str]:
    """Run all steps in one shell, and give what each printed."""
    script = f"\necho {_MARK}\n".join(step.script for step in wanted)
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return [output.strip() for output in done.stdout.split(f"{_MARK}\n")]
