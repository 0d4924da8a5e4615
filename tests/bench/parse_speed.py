"""How fast the parser is, and how much memory it takes, beside ``grep -c`` on the same file: a Markdown table.

    python tests/bench/parse_speed.py --kinds noise,steps
    python tests/bench/parse_speed.py --kinds ranks --bytes 4e9 --directory /var/tmp

The logs are made on the spot (make_logs.py lists their content) and deleted again. Every time is the CPU time of a
fresh process, user and system, so that other programs disturb it little: the best and the median of --repeats, after
one that warms the page cache. ``parse_log`` is timed inside the process, without the start of Python; ``benchrun parse
--json`` and grep are timed from outside, from start to end.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import NamedTuple

from make_logs import KINDS, SIZES, write

ROOT = Path(__file__).parents[2]
GREP = ("grep", "-c", "elapsed time per iteration")
TIMED = """
import json, sys, time
from pathlib import Path
from benchrun.frameworks.logs import parse_log
start = time.process_time()
log = parse_log(Path(sys.argv[1]))
print(json.dumps([time.process_time() - start, len(log.steps)]))
"""


class Cost(NamedTuple):
    """What one process uses."""

    seconds: float
    """CPU time."""
    peak_mb: float
    output: str


def run(*command: str) -> Cost:
    """Run ``command`` to its end; RuntimeError if it fails."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT, env=environment)
    output = process.stdout.read() if process.stdout else ""
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in (0, 1, 4):  # grep: 1 without a match; parse: 4 where the log stops early
        raise RuntimeError(f"{' '.join(command)} ended with {process.returncode}")
    return Cost(usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, output)


def measure(log: Path, repeats: int) -> dict[str, list[Cost]]:
    """The costs of the three commands, ``repeats`` times, in turns."""
    commands = {
        "parse_log": (sys.executable, "-c", TIMED, str(log)),
        "benchrun": (sys.executable, "-m", "benchrun", "parse", "--json", str(log)),
        "grep": (*GREP, str(log)),
    }
    for command in commands.values():
        run(*command)
    costs: dict[str, list[Cost]] = {name: [] for name in commands}
    for _ in range(repeats):
        for name, command in commands.items():
            costs[name].append(run(*command))
    inside = [json.loads(cost.output) for cost in costs["parse_log"]]
    costs["parse_log"] = [
        cost._replace(seconds=seconds, output=str(steps))
        for cost, (seconds, steps) in zip(costs["parse_log"], inside, strict=True)
    ]
    return costs


def row(kind: str, size: float, costs: dict[str, list[Cost]]) -> str:
    """A line of the table: MB/s by the best time, by the median in brackets."""

    def rate(name: str) -> str:
        seconds = [cost.seconds for cost in costs[name]]
        return f"{size / min(seconds) / 1e6:,.0f} ({size / median(seconds) / 1e6:,.0f})"

    def peak(name: str) -> str:
        return f"{max(cost.peak_mb for cost in costs[name]):.0f}"

    best = min(cost.seconds for cost in costs["parse_log"])
    cells = (
        *(kind, f"{size / 1e6:,.0f}", f"{int(costs['parse_log'][0].output):,}", f"{best:.2f}", rate("parse_log")),
        *(rate("benchrun"), rate("grep"), peak("parse_log"), peak("benchrun")),
    )
    return f"| {' | '.join(cells)} |"


HEAD = (
    "| log | MB | rows | parse_log, s | parse_log, MB/s | parse --json, MB/s | grep -c, MB/s"
    " | peak of parse_log, MB | peak of parse --json, MB |\n|---|" + "--:|" * 8
)


def machine() -> str:
    """Processor, cores, Python, grep, system."""
    model = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        names = [line.partition(":")[2].strip() for line in cpuinfo.read_text().splitlines() if "model name" in line]
        model = names[0] if names else model
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    grep = subprocess.run(("grep", "--version"), capture_output=True, text=True, check=False).stdout.partition("\n")[0]
    python = f"{platform.python_implementation()} {platform.python_version()}"
    return f"{model}, {cores} cores; {python}; {grep}; {platform.system()}"


def main() -> None:
    """Make, measure and print, one kind after the other."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kinds", default="noise,steps,titan,nemo2,hf", help=f"of {', '.join(KINDS)}")
    parser.add_argument("--bytes", type=float, help="about so large a log instead of each kind's own size")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--directory", type=Path, help="where the logs fit; the temporary one if not given")
    options = parser.parse_args()
    kinds = options.kinds.split(",")
    if unknown := set(kinds) - set(KINDS):
        parser.error(f"no kind {', '.join(sorted(unknown))}")

    sys.stdout.write(f"{machine()}. CPU time. MB/s: the best of {options.repeats} (the median).\n\n{HEAD}\n")
    for kind in kinds:
        with tempfile.TemporaryDirectory(dir=options.directory) as directory:
            log = Path(directory) / f"{kind}.log"
            write(kind, log, options.bytes or SIZES[kind], options.seed)
            sys.stdout.write(row(kind, log.stat().st_size, measure(log, options.repeats)) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
