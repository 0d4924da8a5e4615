"""Publish a run's profile: the fingerprint and small traces, without names of the site
or of its code.
"""

import json
import re
from pathlib import Path
from typing import Any, NamedTuple

from benchrun.errors import UserError
from benchrun.rundir.artifacts import FINGERPRINT, PROFILE
from benchrun.rundir.fingerprint import Fingerprint
from benchrun.rundir.folder import RunDir
from benchrun.usecases.keep import cleaned, cleaner

from .public import PublicNames
from .read import rank_in, trace_files
from .thin import thinned_trace
from .usecase import (
    nameless_fingerprint,
    store_fingerprint,
    without_names,
)

KINETO = (".json", ".json.gz", ".json.xz", ".json.zst")
LARGEST = 2 << 20
"""Bytes of a trace that is kept."""
RANK_ALONE = re.compile(r"(?:.*/)?rank[-_.]?\d+(?:\.[a-z]+)+")
"""A trace whose name states its rank and nothing else."""


class KeptTraces(NamedTuple):
    """The published files of a profile."""

    files: dict[str, bytes]
    """Content of the files, by their names in the kept run."""
    left_out: list[str]
    """A sentence for each trace that is left out, or for all of them."""


def kept_fingerprint(run: RunDir, public: PublicNames | None = None) -> dict[str, bytes]:
    """The file of the fingerprint that ``run`` stores, with ``public`` names; empty if
    it has none.
    """
    document = run.read_json(FINGERPRINT)
    if document is None:
        return {}
    text = json.dumps(with_public_names(cleaned(run, document), public or PublicNames()), indent=2)
    return {FINGERPRINT: f"{text}\n".encode()}


def keep_profile(run: RunDir) -> KeptTraces:
    """Store the fingerprint of ``run`` if it was profiled; returns what is kept of the
    profile.
    """
    store_fingerprint(run)
    return kept_traces(run)


def gives_again(run: RunDir, stored: Fingerprint) -> bool:
    """Whether the traces of ``run`` give the ``stored`` fingerprint, except for names
    of files and hosts.
    """
    return nameless_fingerprint(run) == without_names(stored)


def with_public_names(document: dict[str, Any], public: PublicNames) -> dict[str, Any]:
    """A fingerprint with ``public`` names of ranges and kernels, and traces named by
    their rank.

    torch's handler for TensorBoard names a trace by its host.
    """
    ranks = []
    for each in document.get("ranks") or []:
        if not RANK_ALONE.fullmatch(str(each.get("file"))):
            each = {**each, "file": f"rank{each.get('rank')}.json"}
        ranks.append(each)
    ranges = []
    for each in document.get("ranges") or []:
        ranges.append({**each, "name": public.of_range(each["name"])})
    kernels: dict[str, Any] = {}
    for field in ("unknown_kernels", "kernels"):
        if field in document:
            listed = document[field] or []
            kernels[field] = [{**each, "name": public.of_kernel(each["name"])} for each in listed]
    # Whoever reads it makes the sentence, which may name a kernel.
    document = {name: value for name, value in document.items() if name != "sentence"}
    return {**document, "ranks": ranks, "ranges": ranges, **kernels}


def kept_traces(run: RunDir) -> KeptTraces:
    """The fingerprint that ``run`` stores, and small copies of its Kineto traces.

    Without the traces if one is larger than `LARGEST` or is of Nsight Systems: the
    fingerprint stands for all of them; and on CPUs, which have no fingerprint. A
    damaged trace is left out.
    """
    public = PublicNames()
    folder = run.path / PROFILE
    fingerprint_file = kept_fingerprint(run, public)
    files = trace_files([folder]) if folder.is_dir() and any(folder.iterdir()) else []
    if not fingerprint_file or not files:
        return KeptTraces(
            fingerprint_file, [f"{file.name}: no event of a GPU was read" for file in files]
        )
    if not all(file.name.endswith(KINETO) for file in files):
        return KeptTraces(
            fingerprint_file, ["traces of Nsight Systems: the fingerprint stands for them"]
        )
    packed = {}
    left_out = []
    for file, rank in zip(files, _ranks(files), strict=True):
        try:
            packed[f"{PROFILE}/rank{rank}.json.xz"] = thinned_trace(file, cleaner(run), public)
        except UserError as error:
            left_out.append(f"{file.name}: {error.message}")
    if any(len(content) > LARGEST for content in packed.values()):
        what = f"traces, of which one has more than {LARGEST >> 20} MiB: the fingerprint stands for them"
        return KeptTraces(fingerprint_file, [*left_out, what])
    return KeptTraces({**fingerprint_file, **packed}, left_out)


def _ranks(files: list[Path]) -> list[int]:
    """The ranks that the names of the files state, else their order."""
    stated = [rank_in(file.name) for file in files]
    ranks = [index if rank is None else rank for index, rank in enumerate(stated)]
    if len(set(ranks)) == len(ranks):
        return ranks
    return [*range(len(files))]
