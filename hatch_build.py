"""The wheel carries the kept runs as one archive without their logs: 50 kB instead of 2 MB."""

import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

NAMES = ("spec.json", "metrics.json", "env.json", "ceilings.json", "steps.jsonl")
"""The files of a kept run that `benchrun.judge` reads."""
ARCHIVE = "runs.tar.xz"


class PackedRuns(BuildHookInterface[Any]):
    """Adds ``results/measured`` to the data of a wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Write the files and name them in ``build_data``; an editable install reads the checkout itself."""
        if version == "editable":
            return
        sys.path.insert(0, self.root)
        folder = Path(tempfile.mkdtemp())
        for name, content in packed(Path(self.root, "results", "measured")).items():
            (folder / name).write_bytes(content)
            build_data["force_include"][str(folder / name)] = (
                f"benchrun/_data/results/measured/{name}"
            )


def packed(folder: Path) -> dict[str, bytes]:
    """The files of a folder with the packed runs of ``folder``, of each run only what is compared."""
    from benchrun import kept

    known, members = {}, {}
    for run in kept.runs(folder):
        entry = kept.entries(folder)[run.name]
        names = [name for name in NAMES if name in entry["files"]]
        known[run.name] = {**entry, "archive": ARCHIVE, "files": names}
        for name in names:
            members[f"{run.name}/{name}"] = kept.read(run / name) or b""
    return {kept.INDEX: kept.index_text(known).encode(), ARCHIVE: kept.archived(members)}
