"""The wheel carries the kept runs as one packed file without their logs: 50 kB instead of 800 kB."""

import io
import lzma
import tempfile
import zipfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

NAMES = ("spec.json", "metrics.json", "env.json", "ceilings.json", "steps.jsonl")
"""The files of a kept run that `benchrun.judge` reads."""


class PackedRuns(BuildHookInterface[Any]):
    """Adds ``results/measured.zip.xz`` to the data of a wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Write the file and name it in ``build_data``; an editable install reads the checkout itself."""
        if version == "editable":
            return
        file = Path(tempfile.mkdtemp()) / "measured.zip.xz"
        file.write_bytes(packed(Path(self.root, "results", "measured")))
        build_data["force_include"][str(file)] = "benchrun/_data/results/measured.zip.xz"


def packed(folder: Path) -> bytes:
    """The runs of ``folder`` as an uncompressed zip archive, compressed as a whole; equal runs give equal bytes.

    Files of one name stand together, because they have most in common.
    """
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as runs:
        for name in NAMES:
            for file in sorted(folder.glob(f"*/{name}")):
                entry = zipfile.ZipInfo(f"{file.parent.name}/{name}")
                runs.writestr(entry, file.read_bytes())
    return lzma.compress(archive.getvalue(), preset=9 | lzma.PRESET_EXTREME)
