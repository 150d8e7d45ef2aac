"""The running server keeps what its document says: schemathesis, with all of its checks and no findings.

Valid and invalid data, in JSON and MessagePack, call by call and along the document's links. The seeds are fixed; to
look for more, run longer by hand (the environment variable is that of `contract_hooks`):

    SCHEMATHESIS_HOOKS=tests.api.contract_hooks PYTHONPATH=. schemathesis run http://127.0.0.1:8080/openapi.json \
        --checks all --mode all --max-examples 1000 --seed 1
"""

import asyncio
import json
import os
import sys
from pathlib import Path

import pytest

from corndog.app import document
from tests.servers import ROOT

SEEDS = {"examples,coverage": 1, "fuzzing": 2, "stateful": 3}
EXAMPLES = {"examples,coverage": 1, "fuzzing": 40, "stateful": 60}


@pytest.mark.timeout(300)
@pytest.mark.parametrize("phases", SEEDS)
async def test_the_server_keeps_its_contract(server_url: str, phases: str, tmp_path: Path) -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "schemathesis.cli", "run", f"{server_url}/openapi.json"),
        *("--checks", "all", "--mode", "all", "--phases", phases),
        *("--max-examples", str(EXAMPLES[phases]), "--seed", str(SEEDS[phases])),
        *("--continue-on-failure", "--no-color"),
        cwd=tmp_path,
        env=os.environ | {"SCHEMATHESIS_HOOKS": "tests.api.contract_hooks", "PYTHONPATH": str(ROOT)},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _ = await process.communicate()

    assert process.returncode == 0, output.decode()
    operations = sum(map(len, json.loads(document())["paths"].values()))
    assert f"{operations} selected / {operations} total" in output.decode()
