"""How soon the page of a report is there: size, and what Chromium says of its first paint; a Markdown table.

    python tests/bench/report_speed.py [--runs 500]

The runs are the kept ones, again and again. Times are medians of five visits in ms.
"""

import argparse
import importlib.util
import sys
import tempfile
import time
from itertools import cycle, islice
from pathlib import Path
from statistics import median
from typing import Any

from benchrun import api, paths
from benchrun.capabilities.html.page import page

BROWSER = Path(__file__).parents[1] / "capabilities" / "html" / "conftest.py"
PAINT = "performance.getEntriesByName('first-contentful-paint')[0].startTime"
DRAWN = f"new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done({PAINT}))))"
LOADED = "performance.getEntriesByType('navigation')[0].loadEventEnd"


def browser(folder: Path) -> Any:
    """The browser of the tests."""
    found = importlib.util.spec_from_file_location("browser", BROWSER)
    assert found and found.loader
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module.Browser(folder)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=500)
    runs = parser.parse_args().runs
    found = api.find_runs(paths.MEASURED)
    results = [api.run_data(run) for run in islice(cycle(found), runs)]
    begun = time.perf_counter()
    text = page(api.report_on(results))
    made_s = time.perf_counter() - begun
    sys.stdout.write(
        "| runs | MB | page made s | window | first paint ms | loaded ms |\n| --- | --- | --- | --- | --- | --- |\n"
    )
    with tempfile.TemporaryDirectory() as place:
        file = Path(place) / "report.html"
        file.write_text(text)
        shown = browser(Path(place) / "profile")
        for width in (1280, 390):
            paints, loads = [], []
            for _ in range(5):
                shown.open(file, width=width)
                paints.append(shown.js(DRAWN))
                loads.append(shown.js(LOADED))
            size = f"{len(text.encode()) / 1e6:.2f} | {made_s:.1f}"
            sys.stdout.write(f"| {runs} | {size} | {width} | {median(paints):.0f} | {median(loads):.0f} |\n")
        shown.process.terminate()
        shown.process.wait()


if __name__ == "__main__":
    main()
