"""A large trace is read in pieces: the memory depends on the events that are kept, not on the file."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from made import call, host, kernel

CODE = """
import resource, sys
from pathlib import Path
from benchrun.api import fingerprint_of
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
share = fingerprint_of([Path(sys.argv[1])])[0].ranks[0].compute
print(share, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024)
"""


@pytest.mark.thorough
def test_a_large_trace_takes_a_fraction_of_its_size(tmp_path: Path) -> None:
    path, pieces = tmp_path / "large.json", 1500
    operators = [host(0, 1, f"aten::op{number}", "cpu_op", shapes="x" * 500) for number in range(150)]
    with path.open("w") as file:
        file.write('{"traceEvents": [')
        for number in range(pieces):
            events = [call(10 * number, 1, number), kernel(10 * number + 2, 5, link=number), *operators]
            file.write(json.dumps(events, indent=1)[1:-1] + ("," if number < pieces - 1 else ""))
        file.write("]}")
    assert path.stat().st_size > 140e6
    result = subprocess.run([sys.executable, "-c", CODE, path], capture_output=True, text=True, check=True)
    share, mebibytes = map(float, result.stdout.split())
    assert share == pytest.approx(5 * pieces / (10 * pieces - 5))
    assert mebibytes < 75
