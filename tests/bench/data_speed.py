"""How fast ``datagen tokens`` writes, beside the disk's own rate and a Python loop over documents.

    python tests/bench/data_speed.py --gigabytes 10 --directory /data
    python tests/bench/data_speed.py --vocab-size 32000 --workers 1,2,4

The loop is what preprocessing does after tokenizing: the documents of the same data set, one after the other, through
megatron-core's IndexedDatasetBuilder; it gets a tenth of the data. The disk's own rate is said twice: ``cp`` of what
was made, and the writing alone: as many processes, the same way of writing, always the same bytes. Everything is timed
from outside, in fresh processes, with the files synced to the disk. The seconds of all cores, user and system, say what
it costs also where other work keeps the machine busy.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

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

WRITERS = """
import os, sys
from pathlib import Path
from datagen.direct import PIECE, buffer, write_direct
path, size, writers = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
data = os.urandom(PIECE)
for number in range(writers):
    if not os.fork():
        memory = buffer(PIECE)  # its own: from memory that two processes share, the disk takes much less
        memory.write(data)
        for place in range(number * PIECE, size, writers * PIECE):
            write_direct(path, place, memoryview(memory)[: size - place])
        os._exit(0)
sys.exit(max(os.wait()[1] for _ in range(writers)) > 0)
"""


class Cost(NamedTuple):
    """What a command took."""

    seconds: float
    core_seconds: float
    """Of it and its children, in user and system mode."""
    megabytes: float
    """Peak memory of its largest process."""


def run(*command: str | Path) -> Cost:
    """The cost of ``command``, with all that it wrote on the disk."""
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
    seconds = time.perf_counter() - start
    return Cost(seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


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
    sys.stdout.write("| what | s | GB/s | core-seconds a GB | peak of a process, MB |\n|---|--:|--:|--:|--:|\n")

    def row(what: str, written: float, cost: Cost) -> None:
        rate, work = written / cost.seconds / 1e9, cost.core_seconds / written * 1e9
        sys.stdout.write(f"| {what} | {cost.seconds:.1f} | {rate:.2f} | {work:.2f} | {cost.megabytes:.0f} |\n")
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
        row(f"the disk alone: {workers} writers", size, run(sys.executable, "-c", WRITERS, copy, int(size), workers))
        copy.unlink()
        row("cp of the .bin", size, run("cp", data, copy))
        copy.unlink()
        row(
            "Python loop, one process",
            size / 10,
            run(sys.executable, "-c", LOOP, prefix, folder + "/loop", tokens // 10),
        )


if __name__ == "__main__":
    main()
