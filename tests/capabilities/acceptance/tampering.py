"""Acceptance packs for tests: a plan whose ranks print a log, so that it takes seconds and no training."""

import hashlib
import io
import json
import lzma
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchrun.capabilities.acceptance.pack import MANIFEST

PRINTS = """
import os, sys, time
if "benchrun.worker.nodecheck" in sys.argv:
    import json
    host = os.uname().nodename
    os.makedirs("nodes", exist_ok=True)
    for rank in range(8):
        values = [SPEEDS.get(rank, 1) * (700 + rank + n) for n in range(5)]
        rates = [{"test": "products", "work": "simulated", "values": values}]
        uuid = f"GPU-{rank}0ffee00-aaaa-bbbb-cccc-0123456789ab"
        found = {"host": host, "rank": rank, "local_rank": rank, "device": "X", "device_id": uuid}
        with open(f"nodes/{host}.{rank}.json", "w") as file:
            json.dump({**found, "ranks": 8, "complete": True, "rates": rates}, file)
elif os.environ.get("RANK", "0") == "0":
    print("on host", os.uname().nodename, "in", os.getcwd(), flush=True)
    for n in range(1, 21):
        ms = 100 + n % 3 + time.time_ns() % 997 / 1000
        print(f" iteration {n:8d}/      20 | consumed samples: 1 | elapsed time per iteration (ms): {ms:.3f} |"
              f" global batch size:     8 | lm loss: {LOSS + (20 - n) / 1e4:.6E} |"
              f" number of nan iterations:   0 |", flush=True)
"""
CRITERIA = {"at_least": {"tokens_per_s_per_gpu": 100}, "max_spread_percent": 50}


def program(folder: Path, loss: float, speeds: dict[int, float]) -> Path:
    """A program in place of the ranks' Python that prints twenty steps; in a check of nodes it writes rates, by
    ``speeds`` of some ranks relative to the others.
    """
    (folder / "steps.py").write_text(PRINTS.replace("LOSS", repr(loss)).replace("SPEEDS", repr(speeds)))
    path = folder / "program.sh"
    path.write_text(f'#!/bin/bash\nexec {sys.executable} {folder / "steps.py"} "$@"\n')
    path.chmod(0o755)
    return path


def plan_file(
    folder: Path, loss: float, name: str = "mine", speeds: dict[int, float] | None = None, **more: Any
) -> Path:
    """A plan of one point with two repeats."""
    run = {"recipe": "tiny-llama", "precision": "fp32", "num_gpus": 1}
    sets = {"cluster.python": str(program(folder, loss, speeds or {})), "cluster.partition": "secretpartition"}
    document = {"description": "what secretpartition must do", "cluster": "local", "repeats": 2, "criteria": CRITERIA}
    path = folder / f"{name}.yaml"
    path.write_text(json.dumps({**document, "runs": [{**run, "set": sets}], **more}))
    return path


def edit(file: Path, change: Callable[[str], str]) -> None:
    """Replace the text of a file, which may be compressed. AssertionError where that changes nothing."""
    packed = file.suffix == ".xz"
    text = lzma.decompress(file.read_bytes()).decode() if packed else file.read_text()
    changed = change(text)
    assert changed != text
    file.write_bytes(lzma.compress(changed.encode()) if packed else changed.encode())


def edit_json(file: Path, change: Callable[[Any], Any]) -> None:
    """Change a JSON file in place."""

    def changed(text: str) -> str:
        document = json.loads(text)
        change(document)
        return json.dumps(document, indent=2) + "\n"

    edit(file, changed)


def fix_manifest(root: Path) -> None:
    """Write the true hashes of all files into the manifest, as a careful forger does."""
    manifest = json.loads((root / MANIFEST).read_text())
    names = sorted(path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file())
    manifest["files"] = {
        name: hashlib.sha256((root / name).read_bytes()).hexdigest() for name in names if name != MANIFEST
    }
    (root / MANIFEST).write_text(json.dumps(manifest, indent=2))


def archive_of(root: Path, target: Path, *extra: tarfile.TarInfo) -> Path:
    """An archive of a pack with more members."""
    with tarfile.open(target, "w:gz") as tar:
        tar.add(root, "mine")
        for member in extra:
            tar.addfile(member, io.BytesIO(b"x" * member.size))
    return target
