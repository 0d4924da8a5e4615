"""Ten points of this year's mixtures of experts, in the publisher's own values, and accepted by the release's classes.

``POINTS`` is the table to read. Each value stands in the rendered driver and in the publisher's configuration alike.
"""

import re
import sys
from pathlib import Path

import pytest

sys.path += [str(Path(__file__).parent), *(str(Path(__file__).parents[1] / name) for name in ("render", "frameworks"))]

from accepted import facts
from comparison import FRAMEWORK, Match, Values, matches, plain, rendered
from released import answers, fetched
from test_accepted import calls, imports

from benchrun.frameworks.registry import framework
from benchrun.recipes.resolve import resolve
from benchrun.recipes.select import Request
from benchrun.render import render
from benchrun.runspec.image_names import nemo_release

DRIVER = "train_megatron_bridge.py"
POINTS = """
recipe            gpu    precision gpus  release  tp pp vp cp ep  mbs gbs    recompute                           dispatcher graphs                                              offload
deepseek-v3       H100   fp8       1024  v0.2.2   2  8  4  1  64  1   8192   mla_up_proj,mlp                     deepep     -                                                   -
deepseek-v3       GB300  fp8       256   v0.5.1   1  2  8  1  32  1   15360  -                                   hybridep   full_iteration                                      -
qwen3-30b-a3b     H100   bf16      16    v0.4.2   1  1  -  1  16  1   1024   -                                   hybridep   moe_router,moe_preprocess                           -
qwen3-235b-a22b   B200   bf16      256   v0.4.2   1  8  4  1  8   1   8192   -                                   alltoall   -                                                   -
qwen3-235b-a22b   GB200  fp8       256   v0.4.2   1  8  3  1  32  1   8192   -                                   hybridep   attn,moe_router,moe_preprocess                      -
gpt-oss-120b      H100   bf16      64    v0.4.2   1  4  -  1  8   1   1280   layernorm,moe_act                   alltoall   -                                                   -
kimi-k2           GB200  fp8       256   v0.4.2   1  4  4  1  64  1   2048   mla_up_proj                         hybridep   moe_router,moe_preprocess                           -
nemotron-3-nano   H100   fp8       16    v0.4.2   1  1  -  1  8   1   1024   moe,layernorm,core_attn,moe_act     hybridep   mamba                                               -
nemotron-3-super  B200   nvfp4     64    v0.4.2   2  1  -  1  64  1   512    -                                   hybridep   mamba,attn,moe_router,moe_preprocess                -
nemotron-3-ultra  GB300  fp8       256   v0.6.0   1  1  -  1  64  1   256    moe_act                             hybridep   -                                                   fused_group_mlp
"""  # noqa: E501
HEAD, *ROWS = [line.split() for line in POINTS.strip().splitlines()]
TABLE = [dict(zip(HEAD, row, strict=True)) for row in ROWS]
NAMES = [" ".join(row[:4]) for row in ROWS]
DEGREES = {
    "tp": "tensor_model",
    "pp": "pipeline_model",
    "vp": "virtual_pipeline_model",
    "cp": "context",
    "ep": "expert_model",
}
OLDER, NEWER = "megatron-bridge_26.04", "megatron-bridge_26.08"
LISTS = {"26.04": (OLDER,), "26.06": (OLDER, NEWER), "26.08": (NEWER,)}
"""Release of an image -> what its classes take; of NeMo 26.06 what those before and after it take."""
PACKAGES = {
    "26.04": ("megatron-bridge==0.4.2", "megatron-core==0.17.1"),
    "26.06": ("megatron-bridge==0.5.1", "megatron-core==0.18.2"),
    "26.08": ("megatron-bridge==0.6.2", "megatron-core==0.19.2"),
}
"""Release of an image -> the packages that are nearest to it on the index."""
NEWEST = "26.08"


def request(row: Values, image: str | None = None) -> Request:
    more = (f"gbs={row['gbs']}", *((f"image=nvcr.io/nvidia/nemo:{image}",) if image else ()))
    return Request(row["recipe"], row["gpu"], row["precision"], int(row["gpus"]), overrides=more)


def match(row: Values) -> Match:
    for each in matches(row["recipe"]):
        if isinstance(each, Match) and each.spec.framework == FRAMEWORK:
            spec = each.spec
            found = (spec.gpu, spec.precision, str(spec.num_gpus), str(spec.gbs), str(spec.mbs))
            if found == tuple(row[name] for name in ("gpu", "precision", "gpus", "gbs", "mbs")):
                return each
    raise AssertionError(row)


def cells(values: Values) -> Values:
    """The table's columns, of a configuration or of a driver."""

    def value(key: str) -> str:
        return plain(f"model.{key}", values.get(f"model.{key}"))

    def listed(key: str, switch: str) -> str:
        return value(key).replace(" ", ",") if value(switch) != "-" else "-"

    found = {name: value(f"{degree}_parallel_size") for name, degree in DEGREES.items()}
    found |= {"mbs": values["train.micro_batch_size"], "gbs": values["train.global_batch_size"]}
    found["recompute"] = listed("recompute_modules", "recompute_granularity")
    flexible = value("moe_token_dispatcher_type") == "flex"
    found["dispatcher"] = value("moe_flex_dispatcher_backend") if flexible else value("moe_token_dispatcher_type")
    found["graphs"] = listed("cuda_graph_scope", "cuda_graph_impl")
    if value("cuda_graph_impl") == "full_iteration":
        found["graphs"] = "full_iteration"
    return found | {"offload": listed("offload_modules", "fine_grained_activation_offloading")}


def made_values(answer: dict[str, dict[str, object]]) -> Values:
    """What the released classes made of a driver, as the extract spells it."""
    found = {}
    for part in ("model", "train"):
        for name, value in answer[part].items():
            words = map(str, value if isinstance(value, list) else [value])
            found[f"{part}.{name}"] = re.sub(r"CudaGraph\w+\.", "", " ".join(words))
    modules = found.get("model.cuda_graph_modules", "")  # the new name
    return found | ({"model.cuda_graph_scope": modules} if modules else {})


@pytest.mark.parametrize("row", TABLE, ids=NAMES)
def test_the_driver_and_the_publisher_have_the_tables_values(row: Values) -> None:
    found = match(row)
    assert found.row["release"] == row["release"]
    assert found.differences == []
    ours, theirs = cells(rendered(found.spec)), cells(found.row)
    assert ours == theirs == {name: row[name] for name in ours}


@pytest.mark.parametrize("image", [None, NEWEST], ids=["its own image", NEWEST])
@pytest.mark.parametrize("row", TABLE, ids=NAMES)
def test_the_release_has_every_name_of_the_driver(row: Values, image: str | None) -> None:
    spec = resolve(request(row, image))
    assert spec.framework == FRAMEWORK and spec.image
    text = render(spec)[DRIVER]
    known = [line for name in LISTS[nemo_release(spec.image) or ""] for line in facts(name)]
    signatures: dict[str, set[str]] = {}
    for line in known:
        name, _, words = line.partition(": ")
        signatures.setdefault(name, set()).update(words.split())
    assert {line for line in imports(text) if "torch" not in line} <= {*known, "from functools import partial"}
    seen = set()
    for name, keywords in calls(text):
        if name in signatures:
            seen.add(name)
            assert keywords <= signatures[name], (name, keywords - signatures[name])
    assert {"OptimizerConfig", "DistributedDataParallelConfig"} <= seen
    assert ("CommOverlapConfig" in seen) != ("comm_overlap=None," in text)


@pytest.mark.parametrize("row", TABLE, ids=NAMES)
def test_the_precision_writes_over_no_argument_of_the_model(row: Values) -> None:
    """MixedPrecisionConfig overwrites each field of the model that it has too, with its default if it is not given."""
    keywords: dict[str, set[str]] = {}
    for name, given in calls(render(resolve(request(row, None)))[DRIVER]):
        keywords.setdefault(name, set()).update(given)
    (fields,) = [line.split() for line in facts(LISTS["26.04"][0]) if line.startswith("MixedPrecisionConfig: ")]
    (provider,) = [name for name in keywords if name.endswith("Provider")]
    assert keywords[provider] & set(fields) <= keywords["MixedPrecisionConfig"]


@pytest.mark.thorough
@pytest.mark.parametrize("release", PACKAGES)
def test_the_released_classes_accept_the_points_and_keep_the_tables_values(release: str) -> None:
    """Each point in its own release, and in the newest: ``ConfigContainer`` and its ``validate``."""
    pytest.importorskip("megatron.core", reason="megatron-core needs pip install '.[train]'")
    questions, asked = {}, {}
    for name, row in zip(NAMES, TABLE, strict=True):
        spec = resolve(request(row))
        if release == NEWEST:
            spec = resolve(request(row, NEWEST))
        if nemo_release(spec.image) == release:
            ranks = {name: variable.value for name, variable in framework(FRAMEWORK).environment(spec).items()}
            driver = render(spec)[DRIVER]
            questions[name] = {"driver": driver, "ranks": spec.num_gpus, "gpu": spec.gpu, "env": ranks}
            asked[name] = row
    folders = [fetched(package, "3.12") for package in PACKAGES[release]]
    made = answers("ask_bridge.py", questions, *folders)
    assert {name: answer["error"] for name, answer in made.items() if "error" in answer} == {}
    for name, row in asked.items():
        kept = cells(made_values(made[name]))
        assert kept == {key: row[key] for key in kept}, name
