"""One point in about 25 lines: what is trained, how it is spread, what it needs, what
was published for it.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import ceil
from shlex import quote
from typing import Any

from rich.text import Text

from benchrun import hardware
from benchrun.errors import UserError
from benchrun.recipes.select import Request
from benchrun.runspec.spec import RunSpec, TrainingSpec
from benchrun.vocabulary import DEGREES, HOUR_S

from .table import aligned

Rows = Iterator[tuple[str, str]]
BAR = 40
"""Characters of the memory bar."""
SHOWN = 4
"""References that are listed."""


def point_view(spec: RunSpec, document: Mapping[str, Any], request: Request) -> Text:
    """``document`` (`benchrun.api.describe`) of ``spec``, which answers ``request``,
    for a reader.
    """
    title = f"{spec.recipe}, {spec.task}, {spec.precision}, {spec.num_gpus} x {spec.gpu}, {spec.framework}\n"
    rows: list[Any] = []
    for part in PARTS:
        rows += part(spec, document)
    rows.append(("launch", launch_line(spec, request)))
    lines = (Text.assemble((f"  {name}  ", "dim"), value) for name, value in aligned(rows))
    return Text.assemble((title, "bold")).append_text(Text("\n").join(lines))


def _work(spec: RunSpec, document: Mapping[str, Any]) -> Rows:
    """The model, the batch and what a step computes."""
    if not isinstance(spec, TrainingSpec):
        what, *where = spec.summary[1:]
        yield "settings", what
        for line in where:
            yield ("", line)
        return
    model = spec.model
    flops = document["flops_per_token"]
    groups = "latent attention"
    if not model.mla:
        groups = f"{model.num_query_groups} groups"
    heads = f"{model.num_attention_heads} heads ({groups})"
    experts = ""
    if model.moe:
        experts = f", {model.moe.num_experts} experts (top {model.moe.topk})"
    yield "model", f"{model.num_layers} layers of width {model.hidden_size}, {heads}{experts}"
    total = model.params_total
    active = model.params_active
    used = ""
    if total != active:
        used = f", {_large(active)} of them used by a token"
    yield "", f"{_large(total)} parameters{used}"
    if spec.reduced:
        yield "proxy", ", ".join(map(str, spec.reduced))
    tokens = spec.gbs * spec.seq_length
    yield (
        "batch",
        f"{spec.gbs} sequences of {spec.seq_length} tokens ({_large(tokens, 1e6)} tokens a step)",
    )
    yield "work", f"{flops['full'] / 1e9:.3g} GFLOP per token (causal: {flops['causal'] / 1e9:.3g})"


def _large(number: float, most: float = 1e9) -> str:
    """A number with three digits, in billions, millions or thousands; the largest unit
    is ``most``.
    """
    scales = [(1e9, "billion"), (1e6, "million"), (1e3, "thousand")]
    scale, name = next((each for each in scales if each[0] <= min(number, most)), scales[-1])
    return f"{number / scale:.3g} {name}"


def _layout(spec: RunSpec, document: Mapping[str, Any]) -> Rows:
    """The layout and its source."""
    nodes = f"{spec.num_nodes} node{'s' if spec.num_nodes > 1 else ''} of {spec.ranks_per_node}"
    if not isinstance(spec, TrainingSpec):
        yield "nodes", nodes
        return
    degrees = {name: getattr(spec.layout, name) for name in (*DEGREES, "etp", "fsdp")}
    split = [f"{name} {degree}" for name, degree in degrees.items() if degree > 1]
    yield "layout", ", ".join([*split, f"dp {spec.dp}"]) + f" on {nodes}"
    yield "", f"micro batch {spec.mbs}, {spec.num_microbatches} micro batches per step and rank"
    recompute = spec.training.recompute
    if recompute.granularity != "none" or recompute.policy:
        size = ""
        if recompute.method:
            size = f", {recompute.method} {recompute.num_layers}"
        elif recompute.modules:
            size = f": {', '.join(recompute.modules)}"
        yield "recompute", recompute.policy or f"{recompute.granularity}{size}"
    if document["layout_warning"]:
        yield "  warning", document["layout_warning"]
    if spec.derived or not spec.source:
        yield "derived", spec.derived or "the recipe states no source of this layout"
    else:
        yield "source", spec.source


def _memory(spec: RunSpec, document: Mapping[str, Any]) -> Rows:
    """The estimate as a bar, and its parts."""
    if not isinstance(spec, TrainingSpec):
        return
    parts = dict(document["memory_gib"])
    total = parts.pop("total")
    gpu = hardware.site_gpu(spec.cluster)
    named = {name: size for name, size in parts.items() if size >= 0.05}
    if gpu is None:
        yield (
            "memory",
            f"{total:.1f} GiB per rank" if total >= 0.05 else "less than 0.1 GiB per rank",
        )
    else:
        yield "memory", f"{bar(named, gpu.memory_gib)} {total:.1f} of {gpu.memory_gib:g} GiB"
    if named:
        yield "", ", ".join(f"{name} {size:.1f}" for name, size in named.items())
    if document["memory_warning"]:
        yield "  warning", document["memory_warning"]


def bar(parts: Mapping[str, float], whole: float) -> str:
    """Draw ``parts`` of ``whole`` as a bar: each part by its first letter, free space
    by dots.

    A part that is not empty has a letter at least; what does not fit ends in ``!``.
    """
    letters = "".join(name[0] * max(1, round(BAR * size / whole)) for name, size in parts.items())
    full = sum(parts.values()) > whole
    if full:
        return f"[{letters[:BAR]}!]"
    return f"[{letters[:BAR].ljust(BAR, '.')}]"


def _published(spec: RunSpec, document: Mapping[str, Any]) -> Rows:
    """The references, as seconds and tokens/s/GPU if a step time was published."""
    references = document["references"]
    if not references:
        yield "published", "no number for these conditions"
    for index, entry in enumerate(references[:SHOWN]):
        value = f"{_number(entry['value'])} {_unit(entry)}"
        if entry["metric"] == "step_time_s" and isinstance(spec, TrainingSpec):
            value += f" ({spec.gbs * spec.seq_length / spec.num_gpus / entry['value']:,.0f} tokens/s/GPU)"
        source = entry["source"]
        framework = entry["key"]["framework"]
        yield (
            "" if index else "published",
            f"{value}  {framework or ''}  {source['who']} {source['date']}, {entry['id']}",
        )
    if len(references) > SHOWN:
        yield "", f"and {len(references) - SHOWN} more: --json or --all"


def _number(value: float) -> str:
    if value >= 1000:
        return f"{value:,.0f}"
    return f"{value:g}"


def _expected(spec: RunSpec, document: Mapping[str, Any]) -> Rows:
    """The predicted step time; none if it cannot be predicted."""
    step = document.get("expected_step_time_s")
    if step and isinstance(spec, TrainingSpec):
        rate = spec.gbs * spec.seq_length / spec.num_gpus / step["median"]
        limits = f"{step['low']:.3g} to {step['high']:.3g} s"
        yield (
            "expected",
            f"{step['median']:.3g} s ({limits}; {rate:,.0f} tokens/s/GPU): a prediction",
        )


def _unit(entry: Mapping[str, Any]) -> str:
    from benchrun.measure.registry import METRICS

    metric = METRICS.get(entry["metric"])
    if metric:
        return metric.unit
    return str(entry["metric"])


def _job(spec: RunSpec, document: Mapping[str, Any]) -> Rows:
    """The cluster, the image and the number of steps."""
    site = spec.cluster
    queue = {"partition": site.partition, "account": site.account, "qos": site.qos}
    stated = [f"{name} {value}" for name, value in queue.items() if value]
    where = f"{site.name} ({', '.join(filter(None, [site.scheduler, *stated, site.container.runtime]))})"
    yield "cluster", f"{where}, at most {site.time_limit}"
    if spec.container_image:
        yield "image", spec.container_image
    if document["launch_warning"]:
        yield "  note", document["launch_warning"]
    # A benchmark of a server has none.
    steps = f"{spec.planned_steps} steps; " if spec.planned_steps else ""
    yield "run", f"{steps}identity {spec.identity()}"


def launch_line(spec: RunSpec, request: Request) -> str:
    """The command that launches this very point of the recipe, by its name or path as
    it was given.
    """
    point = f"{quote(request.recipe)} --gpu {spec.gpu} --precision {spec.precision} --num-gpus {spec.num_gpus}"
    given: list[str] = []
    for override in request.overrides:
        given += ("--set", quote(override))
    if request.framework:  # a framework that is named runs its newest release
        point += f" --framework {spec.framework}"
    where = "FILE"
    if request.cluster:
        where = quote(request.cluster)
    return " ".join([f"benchrun launch {point} --cluster {where}", *given])


PARTS: tuple[Callable[[RunSpec, Mapping[str, Any]], Rows], ...] = (
    _work,
    _layout,
    _memory,
    _expected,
    _published,
    _job,
)
"""Parts of the page, in this order."""


CHOSEN = ("recipe", "framework", "gpu", "precision", "num_gpus")


def suite_rows(
    points: Sequence[tuple[Mapping[str, Any], RunSpec | UserError]],
) -> list[dict[str, Any]]:
    """One row per run of a suite or study, in its order: its conditions, and
    ``refused``: why it is illegal.
    """
    varied: dict[str, set[str]] = {}
    for stated, _ in points:
        for key in stated:
            varied.setdefault(key, {str(each.get(key)) for each, _ in points})
    differing = []
    for key, values in varied.items():
        if len(values) > 1 and key not in CHOSEN:
            differing.append(key)
    rows = []
    for stated, spec in points:
        settings = {key: stated.get(key) for key in differing}
        rows.append({**_chosen(stated, spec), **settings, **_size(spec)})
    return rows


def _chosen(stated: Mapping[str, Any], spec: RunSpec | UserError) -> dict[str, Any]:
    found = {}
    for name in CHOSEN:
        found[name] = stated.get(name) if isinstance(spec, UserError) else getattr(spec, name)
    return found


def _size(spec: RunSpec | UserError) -> dict[str, Any]:
    if isinstance(spec, UserError):
        return dict.fromkeys(("num_nodes", "gbs", "steps", "gpu_hours_at_most")) | {
            "refused": spec.message
        }
    return {
        "num_nodes": spec.num_nodes,
        "gbs": getattr(spec, "gbs", None),
        "steps": spec.planned_steps,
        "gpu_hours_at_most": ceil(10 * spec.num_gpus * spec.cluster.time_limit_s / HOUR_S) / 10,
        "refused": None,
    }
