"""The identity of a run: a digest of a canonical form of its RunSpec, with its own
names and defaults.

The form is frozen. For trainings identity.csv lists the name of each value in the form,
the field of RunSpec that holds it, the runs that have it (all trainings if empty), and
the usual value, which the form omits. If a field gets another name or default, only
that file changes and every id stays. A new field gets a row with the value that older
runs had. Any other change needs the next ``VERSION``. Of another workload the form has
every input.
"""

import functools
import hashlib
import json
import re
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from benchrun.paths import table

from .image_names import image_name, is_path

if TYPE_CHECKING:
    from .spec import RunSpec, TrainingSpec

VERSION = 1
ANY = "any workload"
NOTHING = "nothing"
"""An empty value in the last column."""
NOT_SPEED = (
    "HF_HUB_OFFLINE",
    "HYDRA_FULL_ERROR",
    "NCCL_DEBUG",
    "NCCL_DEBUG_SUBSYS",
    "TOKENIZERS_PARALLELISM",
    "TORCH_NCCL_DUMP_ON_TIMEOUT",
    "TORCH_NCCL_TRACE_BUFFER_SIZE",
    "TRANSFORMERS_OFFLINE",
    "VOCAB_PATH",
)
"""Variables that do not change the speed."""
OF_THE_SITE = re.compile(r"_IFNAME$|_HCA$|_NET_DEVICES$|_ADDR$|_PORT$")
"""Variables that name a network interface or address."""


def canonical(spec: "RunSpec") -> dict[str, Any]:
    """The form of ``spec``: everything that changes the measurement, without site and
    paths.
    """
    form = {
        row["name"]: value_of(spec, row["field"]) for row in table(__file__) if row["only"] == ANY
    } | spec.form()
    form["image"] = workload_image(spec)
    return form | {
        f"env.{name}": value for name, value in workload_env(spec).items() if _counts(name, value)
    }


def training_form(spec: "TrainingSpec") -> dict[str, Any]:
    """A training's part of the form."""
    kinds = {"", spec.model.position_embedding, spec.precision, spec.task}
    kinds |= {
        part
        for part in ("moe", "mla", "mamba", "window", "rope_scaling")
        if getattr(spec.model, part)
    }
    if spec.data.kind == "synthetic":
        kinds.add("conversations" if spec.instructed else "tokens")
    all_read = ("data.tokens", spec.training.steps * spec.tokens_per_step + 1)
    values = []
    for row in table(__file__):
        if row["only"] in kinds:
            values.append((row, _plain(value_of(spec, row["field"]))))
    found = {}
    for row, value in values:
        if (str(value) or NOTHING) != row["usual"] and (row["name"], value) not in (
            all_read,
            ("data.tokens", None),
        ):
            found[row["name"]] = value
    return found


def value_of(root: Any, field: str) -> Any:
    """The value of a dotted field."""
    return functools.reduce(getattr, field.split("."), root)


def digest(spec: "RunSpec", without: Collection[str] = ()) -> str:
    """Eight hex digits of the form without some of its values."""
    form = {}
    for name, value in canonical(spec).items():
        if name not in without:
            form[name] = value
    text = json.dumps({"form": VERSION, **form}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def workload_env(spec: "RunSpec") -> dict[str, str]:
    """The variables of the framework and the recipe, before the cluster's took their
    place.
    """
    own = {}
    for name, value in spec.env.items():
        if name not in spec.cluster.env:
            own[name] = value
    return own | spec.replaced_env


def workload_image(spec: "RunSpec") -> str | None:
    """``name:tag`` of the image. A site's file counts only if its name states a release
    of the recipe's image.
    """
    if spec.image is None:
        return None
    named = image_name(spec.image)
    own = spec.replaced_image and image_name(spec.replaced_image)
    if not is_path(spec.image):
        return named
    name, _, tag = named.partition(":")
    if tag and name.endswith((own or name).partition(":")[0]):
        return named
    return own


def _counts(name: str, value: str) -> bool:
    return name not in NOT_SPEED and not OF_THE_SITE.search(name) and "/" not in value


def _plain(value: Any) -> Any:
    """One spelling per value: 16.0 is 16, a list is its words, sorted."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, Mapping):
        value = [f"{name}={value[name]}" for name in value]
    if isinstance(value, Iterable) and not isinstance(value, str):
        return "+".join(sorted(value))
    return value
