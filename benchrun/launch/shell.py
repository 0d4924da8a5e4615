"""What the submitting shell must give a run: checked before anything is queued or written."""

from __future__ import annotations

import os
from pathlib import Path

from benchrun.errors import UserError
from benchrun.render.containers import unmountable
from benchrun.spec.runspec import RunSpec


def check(spec: RunSpec, root: Path) -> None:
    """Raise UserError where a secret is not set, or where Slurm or the runtime would misread a path of the run."""
    for name in spec.cluster.secrets:
        if not os.environ.get(name):
            hint = f"export {name}=... before launching, or take it out of cluster.secrets"
            raise UserError(f"cluster.secrets: {name} is not set in this shell", hint=hint)
    data = os.environ.get("BENCHRUN_DATA") if spec.data.kind == "synthetic" else None
    paths = [(str(root.resolve()), "BENCHRUN_RESULTS"), *([(data, "BENCHRUN_DATA")] if data else [])]
    slurm = spec.cluster.scheduler == "slurm"
    runtime = spec.cluster.container.runtime
    for path, variable in paths:
        if slurm and not path.isprintable():  # its lists are read line by line, as UTF-8
            raise UserError(f"a list of Slurm's jobs cannot hold {path!r}", hint=f"set {variable} to another place")
        # Slurm reads both in the path of a log: % as a pattern, \ as its escape.
        if bad := sorted(set(path) & set("%\\")) if slurm else []:
            raise UserError(f"Slurm would misread {bad[0]!r} in {path}", hint=f"set {variable} to another place")
        if bad := sorted(set(path) & set(unmountable(runtime))):
            raise UserError(f"{runtime} would split {path} at {bad[0]!r}", hint=f"set {variable} to another place")
