"""How fast and in how much memory `benchrun fingerprint` reads a large Kineto trace.

    python tests/bench/trace_speed.py TRACE.json[.gz] [--gigabytes 2]

A real trace is repeated, one copy after the other in time, until the file has the size. Prints the events, MB/s of JSON
and the peak memory of the command.
"""

import argparse
import gzip
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

LINKS = ("External id", "correlation")
"""Arguments by which events refer to each other."""
GAP_US = 1000
FAR = 10_000_000
"""Between the numbers of two copies."""


def shifted(event: dict[str, Any], copy: int, span: float) -> dict[str, Any]:
    """The event in the given copy of a trace that lasts ``span`` microseconds."""
    later = dict(event)
    if "ts" in event:
        later["ts"] = event["ts"] + copy * span
    if isinstance(event.get("id"), int):
        later["id"] = event["id"] + copy * FAR
    if "args" in event:
        later["args"] = {key: value + copy * FAR if key in LINKS else value for key, value in event["args"].items()}
    return later


def write(source: Path, target: Path, size: float) -> int:
    """Repeat ``source`` in ``target`` up to ``size`` bytes; the number of events."""
    document = json.loads(gzip.decompress(source.read_bytes()) if source.suffix == ".gz" else source.read_bytes())
    named = [event for event in document["traceEvents"] if event.get("ph") == "M"]
    timed = [event for event in document.pop("traceEvents") if event.get("ph") != "M"]
    starts = [event["ts"] for event in timed if "ts" in event]
    span, copy = max(starts) - min(starts) + GAP_US, 0
    with target.open("w") as file:
        file.write(json.dumps(document)[:-1] + ', "traceEvents": ' + json.dumps(named)[:-1])
        while file.tell() < size:
            for event in timed:
                file.write(",\n" + json.dumps(shifted(event, copy, span)))
            copy += 1
        file.write("]}\n")
    return len(named) + copy * len(timed)


def main() -> None:
    """Write the trace, read it, print a line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trace", type=Path)
    parser.add_argument("--gigabytes", type=float, default=2.0)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        events = write(given.trace, path, given.gigabytes * 1e9)
        started = time.perf_counter()
        command = [sys.executable, "-m", "benchrun", "fingerprint", str(path), "--json"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        seconds = time.perf_counter() - started
        megabytes = path.stat().st_size / 1e6
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024 / 1e6
    speed = f"{megabytes:,.0f} MB in {seconds:.1f} s: {megabytes / seconds:.0f} MB/s"
    sys.stdout.write(f"{events:,} events, {speed}, {peak:.0f} MB of memory\n")


if __name__ == "__main__":
    main()
