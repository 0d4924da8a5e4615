"""The result of a benchmark of a server for a reader: requests, rates, one row for each
latency.
"""

from collections.abc import Iterator, Mapping

from benchrun.measure.metric import OURS
from benchrun.measure.model import Measurement
from benchrun.measure.registry import METRICS

LATENCIES = {
    "ttft": "time to first token",
    "tpot": "time per output token",
    "itl": "inter-token latency",
    "e2el": "request latency",
}
RATES = (
    "output_tokens_per_s_per_gpu",
    "total_tokens_per_s_per_gpu",
    "output_tokens_per_s_per_user",
    "answered_requests_per_s",
    "goodput_requests_per_s",
)


def serving_rows(measured: Measurement) -> Iterator[tuple[str, str]]:
    """Name and text of what the client of a benchmark measured; what it does not state
    has no row.
    """
    values = measured.results
    yield from _requests(values)
    if "output_tokens_per_s" in values:
        total = values.get("total_tokens_per_s")
        both = ""
        if total is not None:
            both = f", {total:,.1f} with the prompts"
        yield "output tokens/s", f"{values['output_tokens_per_s']:,.1f}{both}, of all GPUs"
    for name in RATES:
        rate = METRICS[name]
        value = rate.read(measured, OURS)
        if value is not None:
            yield rate.title, f"{value:,.4g}" if value < 1000 else f"{value:,.1f}"
    for short, title in LATENCIES.items():
        texts = []
        for statistic in ("mean", "median", "p90", "p95", "p99"):
            value = values.get(f"{statistic}_{short}_ms")
            if value is not None:
                texts.append(
                    f"{statistic} {value:,.4g}" if value < 1000 else f"{statistic} {value:,.0f}"
                )
        if texts:
            yield title, f"{', '.join(texts)} ms"
    if measured.settings:
        yield (
            "requests",
            ", ".join(f"{name} {_text(value)}" for name, value in measured.settings.items()),
        )


def _requests(values: Mapping[str, float]) -> Iterator[tuple[str, str]]:
    if "completed" in values:
        of = ""
        if "num_prompts" in values:
            of = f" of {values['num_prompts']:.0f}"
        seconds = ""
        if "duration_s" in values:
            seconds = f" in {values['duration_s']:,.1f} s"
        yield "answered", f"{values['completed']:.0f}{of} requests{seconds}"
    sides = {side: values.get(f"mean_{side}_tokens") for side in ("input", "output")}
    lengths = []
    for side, value in sides.items():
        if value is not None:
            lengths.append(f"{value:,.1f} {side}")
    if lengths:
        yield "tokens/request", f"{', '.join(lengths)}, in the mean"


def _text(value: object) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    return str(value)
