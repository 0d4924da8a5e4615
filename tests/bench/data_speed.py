"""How fast ``datagen tokens`` writes, beside a plain copy on the same disk and a Python loop over documents.

    python tests/bench/data_speed.py --gigabytes 10 --directory /data
    python tests/bench/data_speed.py --vocab-size 32000 --workers 1,2,4

The loop is what preprocessing does after tokenizing: the documents of the same data set, one after the other, through
megatron-core's IndexedDatasetBuilder; it gets a tenth of the data. The copy is ``cp`` of what was just written, and a
``sync``. Everything is timed from outside, in fresh processes, with the files synced to the disk.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from parse_speed import machine

ROOT = Path(__file__).parents[2]
LOOP = """
import sys
import torch
from megatron.core.datasets.indexed_dataset import DType, IndexedDataset, IndexedDatasetBuilder
source, target, tokens = sys.argv[1], sys.argv[2], int(sys.argv[3])
documents = IndexedDataset(source)
builder = IndexedDatasetBuilder(target + ".bin", dtype=documents.index.dtype)
for document in documents:
    builder.add_item(torch.IntTensor(document.tolist()))
    builder.end_document()
    tokens -= len(document)
    if tokens <= 0:
        break
builder.finalize(target + ".idx")
"""


def run(*command: str | Path) -> tuple[float, float]:
    """Seconds and peak memory in MB of the largest process of ``command``, with all of it on the disk."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "ignore"}
    start = time.perf_counter()
    process = subprocess.Popen(
        list(map(str, command)), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment
    )
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{' '.join(map(str, command))} ended with {process.returncode}")
    os.sync()
    return time.perf_counter() - start, usage.ru_maxrss / 1024


def main() -> None:
    """Make, copy, loop, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gigabytes", type=float, default=2)
    parser.add_argument("--vocab-size", type=int, default=128256)
    parser.add_argument("--workers", default="1,2")
    parser.add_argument("--directory", type=Path, help="where it fits twice; the temporary one if not given")
    options = parser.parse_args()
    size = options.gigabytes * 1e9
    tokens = int(size / (2 if options.vocab_size < 65500 else 4))

    sys.stdout.write(f"{machine()}. {options.gigabytes:g} GB of .bin, vocabulary {options.vocab_size}.\n\n")
    sys.stdout.write("| what | s | GB/s | peak of a process, MB |\n|---|--:|--:|--:|\n")

    def row(what: str, written: float, cost: tuple[float, float]) -> None:
        sys.stdout.write(f"| {what} | {cost[0]:.1f} | {written / cost[0] / 1e9:.2f} | {cost[1]:.0f} |\n")
        sys.stdout.flush()

    with tempfile.TemporaryDirectory(dir=options.directory) as folder:
        prefix = Path(folder) / "tokens"
        data = prefix.with_suffix(".bin")
        datagen = [sys.executable, "-m", "datagen", "tokens", "--output", prefix, "--tokens", tokens]
        for workers in options.workers.split(","):
            for path in Path(folder).iterdir():
                path.unlink()
            os.sync()
            command = (*datagen, "--vocab-size", options.vocab_size, "--workers", workers)
            row(f"datagen tokens --workers {workers}", size, run(*command))
        copy = Path(folder) / "copy.bin"
        row("cp of the .bin", size, run("cp", data, copy))
        copy.unlink()
        row(
            "Python loop, one process",
            size / 10,
            run(sys.executable, "-c", LOOP, prefix, folder + "/loop", tokens // 10),
        )


if __name__ == "__main__":
    main()
