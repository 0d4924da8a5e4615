"""Publish a run's profile: its fingerprint, without names of the site or of its code."""

import json
import re
from typing import Any

from benchrun.rundir.artifacts import FINGERPRINT
from benchrun.rundir.folder import RunDir
from benchrun.usecases.keep import cleaned

from .public import PublicNames
from .usecase import store_fingerprint

RANK_ALONE = re.compile(r"(?:.*/)?rank[-_.]?\d+(?:\.[a-z]+)+")
"""A trace whose name states its rank and nothing else."""


def kept_fingerprint(run: RunDir) -> dict[str, bytes]:
    """The file of the fingerprint that ``run`` stores, with public names; empty if it has
    none.
    """
    document = run.read_json(FINGERPRINT)
    if document is None:
        return {}
    text = json.dumps(with_public_names(cleaned(run, document), PublicNames()), indent=2)
    return {FINGERPRINT: f"{text}\n".encode()}


def keep_profile(run: RunDir) -> dict[str, bytes]:
    """Store the fingerprint of ``run`` if it was profiled; returns the file that is kept."""
    store_fingerprint(run)
    return kept_fingerprint(run)


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
