"""Environment variables of the ranks: environment.csv has a row for each, with its
frameworks and its conditions.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from benchrun import hardware
from benchrun.paths import table
from benchrun.runspec.image_names import nemo_release

CONDITIONS: Mapping[str, Callable[[Any], bool]] = {
    "": lambda spec: True,
    "gpu": lambda spec: spec.gpu != "CPU",
    "fp8": lambda spec: spec.precision == "fp8",
    "nvfp4": lambda spec: spec.precision == "nvfp4",
    "moe_overlap": lambda spec: spec.training.moe_overlap,
    "nemo26.06": lambda spec: (nemo_release(spec.image) or "") >= "26.06",
    "flex": lambda spec: spec.training.moe_dispatcher != "alltoall",
    "pp": lambda spec: spec.layout.pp > 1,
    "tp or cp": lambda spec: spec.layout.tp > 1 or spec.layout.cp > 1,
    "fsdp": lambda spec: spec.layout.fsdp > 1,
    "blackwell": lambda spec: (
        (gpu := hardware.site_gpu(spec.cluster)) is not None and gpu.arch.startswith("Blackwell")
    ),
    "b200": lambda spec: spec.gpu == "B200",
    "gb200": lambda spec: spec.gpu == "GB200",
    "own_nccl_debug": lambda spec: any(name.startswith("NCCL_DEBUG") for name in spec.cluster.env),
    "deadline": lambda spec: bool(spec.cluster.step_deadline_s),
    "cuda_graphs": lambda spec: spec.training.cuda_graphs != "none",
    "tp_comm_overlap": lambda spec: spec.training.tp_comm_overlap,
}
"""Words of the column ``when``, in which + means and; "no" before one negates it."""


class Variable(NamedTuple):
    """An environment variable of the ranks."""

    value: str
    why: str
    """The comment beside it in the job script."""


def variables(framework: str, spec: Any) -> dict[str, Variable]:
    """The variables of ``framework`` by name, in the order of the table."""
    found = {}
    for row in table(__file__):
        if framework in row["frameworks"].split() and _applies(row["when"], spec):
            found[row["name"]] = Variable(row["value"], row["why"])
    return found


def _applies(when: str, spec: Any) -> bool:
    words = when.split("+")
    return all(
        CONDITIONS[word.removeprefix("no ")](spec) != word.startswith("no ") for word in words
    )
