"""Reports of Nsight Systems, which only its own program can read."""

import shutil
from pathlib import Path

from benchrun.errors import UserError
from benchrun.jobs.commands import call

TIMEOUT_S = 1800
"""A report of some GB takes minutes."""


def export_report(report: Path, target: Path) -> None:
    """Write the SQLite export of a .nsys-rep. UserError if nsys is missing or refuses
    the report.
    """
    if not report.is_file():
        raise UserError("cannot be read: no such file", where=str(report))
    if shutil.which("nsys") is None:
        hint = f"where nsys is: nsys export --type sqlite {report.name}"
        raise UserError(
            "is a report of Nsight Systems, and nsys is not on this machine",
            where=str(report),
            hint=hint,
        )
    result = call(
        ["nsys", "export", "--type", "sqlite", "--output", str(target), str(report)],
        timeout_s=TIMEOUT_S,
    )
    if result.returncode or not target.is_file():
        last = (result.stderr or result.stdout).strip().splitlines()[-1:] or ["no message"]
        raise UserError(f"nsys cannot export it: {last[0]}", where=str(report))
