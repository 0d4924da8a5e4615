"""How fast predictions are: one point, every layout of a model as `study --tune` ranks them, a table: a Markdown table.

    python tests/bench/predict_speed.py [--layouts 2000]

Every time is the CPU time of this process in ms, after what is read once; the first line is that reading.
"""

import argparse
import csv
import io
import itertools
import platform
import sys
import time
from dataclasses import replace
from statistics import median

from benchrun import hardware
from benchrun.capabilities.predict.prediction import predict, predicted_rows, usual
from benchrun.capabilities.predict.rows import published
from benchrun.capabilities.predict.workload import Workload, architectures
from benchrun.model.layout import Layout

SIZES = (1, 2, 4, 8, 16)


def layouts(number: int) -> list[Workload]:
    """That many layouts of Llama 3.1 405B on 1,024 H100."""
    gpu = hardware.gpu("H100")
    assert gpu is not None
    base = Workload(architectures()["llama3.1-405b"], gpu, 1024, Layout(), 1, 2048, 8192, "fp8")
    found = []
    for tp, pp, cp, vp, mbs, again in itertools.product(SIZES, SIZES, SIZES, SIZES, SIZES[:4], ("none", "full")):
        layout = Layout(tp=tp, pp=pp, cp=cp, vp=vp if pp > 1 else 1, sequence_parallel=tp > 1)
        found.append(replace(base, layout=layout, mbs=mbs, recompute=again))
    if number > len(found):
        raise SystemExit(f"at most {len(found)} layouts")
    return found[:: len(found) // number][:number]


def milliseconds(start: float) -> float:
    """CPU time since ``start``."""
    return 1000 * (time.process_time() - start)


def main() -> None:
    """Time and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--layouts", type=int, default=2000)
    loads = layouts(parser.parse_args().layouts)
    start = time.process_time()
    calibration = usual()
    predict(loads[0], calibration)
    reading = milliseconds(start)
    single = []
    for load in loads:
        start = time.process_time()
        predict(load, calibration)
        single.append(milliseconds(start))
    table_file = io.StringIO()
    writer = csv.DictWriter(table_file, list(published()[0]))
    writer.writeheader()
    writer.writerows(published())
    text = table_file.getvalue()
    start = time.process_time()
    predicted_rows(io.StringIO(text), io.StringIO(), lambda line: None, calibration)
    table = milliseconds(start)
    lines = (
        f"{platform.processor() or platform.machine()}, Python {platform.python_version()}\n",
        "| what | CPU time, ms |\n|---|---|",
        f"| constants and known rows, read once | {reading:.0f} |",
        f"| a prediction, median (slowest) of {len(single)} | {median(single):.1f} ({max(single):.1f}) |",
        f"| {len(single)} layouts | {sum(single):.0f} |",
        f"| the {len(text.splitlines()) - 1} published rows | {table:.0f} |",
    )
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
