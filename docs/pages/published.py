"""docs/published.md: published numbers by workload."""

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from benchrun.judge.references import Reference
from benchrun.show.table import Table, markdown

TEXT = Path(__file__).with_suffix(".md.in")
"""What stands above the tables."""
NOTHING = "-"


COLUMNS = (
    "GPU",
    "precision",
    "sequence",
    "GPUs",
    "numbers",
    "best",
    "tokens/s/GPU",
    "flags",
    "source",
)

RATIOS = {
    "fsdp_over_3d": ", FSDP over 3D parallelism",
    "trtllm_over_nemo": ", generation by TensorRT-LLM over NeMo's",
    "vllm_over_transformers": ", generation by vLLM over transformers'",
}
"""Metrics of two runs, and what they compare."""


def page(entries: Sequence[Reference]) -> str:
    """The whole page."""
    speeds = sorted(
        (entry for entry in entries if entry.metric != "final_loss"),
        key=lambda entry: entry.key.recipe,
    )
    parts = [TEXT.read_text(encoding="utf-8")]
    for recipe, of_recipe in groupby(speeds, key=lambda entry: entry.key.recipe):
        rows = [_row(list(same)) for _, same in groupby(sorted(of_recipe, key=_group), key=_group)]
        parts.append(f"\n## {recipe}\n\n{markdown(Table(COLUMNS, rows, NOTHING))}")
    return "".join(parts)


def _group(entry: Reference) -> tuple[str, str, int, bool, str]:
    """What the entries of a row share; a ratio is no speed, and has a line of its own."""
    key = entry.key
    return (
        key.gpu,
        key.precision or NOTHING,
        key.seq_length or 0,
        entry.metric in RATIOS,
        key.settings,
    )


def _row(entries: Sequence[Reference]) -> list[Any]:
    """One GPU, precision and sequence length, and its best number."""
    key = entries[0].key
    conditions = [
        key.gpu,
        key.precision,
        key.seq_length or key.settings or None,
        _scales(entries),
        len(entries),
    ]
    whole = [entry for entry in entries if not {"misprint", "revised", "proxy"} & set(entry.flags)]
    best = max(whole, key=_rank, default=None)
    if best is None:
        return [*conditions, None, None, None, None]
    rate = f"{best.tokens_per_s_per_gpu:,.0f}" if best.tokens_per_s_per_gpu else None
    source = f"{best.source.who} {best.source.date}, {best.source.where}"
    return [*conditions, _published(best), rate, " ".join(best.flags), source]


def _rank(entry: Reference) -> tuple[float, float, str]:
    """Tokens/s/GPU (0 where the row does not state it), then the value, then the date."""
    value = -entry.value if entry.better == "lower" else entry.value
    return entry.tokens_per_s_per_gpu, value, entry.source.date


def _published(entry: Reference) -> str:
    """The number as printed, and its scale."""
    gpus = f" on {entry.key.num_gpus}" if entry.key.num_gpus else ""
    batch = f", GBS {entry.key.gbs}" if entry.key.gbs else ""
    return f"{entry.value:g} {entry.unit}{RATIOS.get(entry.metric, '')}{gpus}{batch}"


def _scales(entries: Sequence[Reference]) -> str:
    """Numbers of GPUs; of proxies apart."""
    whole, proxies = (
        sorted({entry.key.num_gpus or 0 for entry in entries if ("proxy" in entry.flags) is proxy})
        for proxy in (False, True)
    )
    listed = ", ".join(str(count or "not stated") for count in whole)
    fewer = f"with fewer layers {', '.join(map(str, proxies))}" if proxies else ""
    return "; ".join(filter(None, (listed, fewer)))
