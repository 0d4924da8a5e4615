"""SGLang's client ``sglang.bench_serving`` and its JSON lines.

The lines of a file may be of many runs: the client appends one to it each time. A rate
without a limit is a bare ``Infinity``. There is no line about failed requests: their
number follows from ``num_prompts``, if that is stated.
"""

from collections.abc import Mapping
from typing import ClassVar

from benchrun.logs.serving import Document, Served

from .vllm import (
    LABELS,
    NEEDLES,
    Vllm,
    settings_of,
    values_of,
)


class Sglang(Vllm):
    """vLLM's block with the backend in its first line; without a server its head is
    another.
    """

    name = "sglang"
    head_words = "Benchmark Result"
    step_needles: ClassVar[tuple[bytes, ...]] = (
        *NEEDLES,
        b"Benchmark Result ==",
        b"Backend:      ",
        b"Traffic request rate:",
        b" E2E Latency (ms):",
        b"Max reqeuest concurr",
    )
    labels = LABELS | {"Concurrency": "mean_concurrency"}
    stated: ClassVar[Mapping[str, str]] = {
        "Backend": "backend",
        "Traffic request rate": "request_rate",
        "Max request concurrency": "concurrency",
        "Max reqeuest concurrency": "concurrency",
    }

    @property
    def seen(self) -> bool:
        """Whether a block has a result and names its backend: vLLM's does not."""
        return bool(self.served) and "backend" in self.served[-1].settings


OWN = frozenset({"mean_e2e_latency_ms", "median_e2e_latency_ms", "total_output_tokens_retokenized"})
"""Keys that no other client writes."""


def document(entry: Document) -> Served | None:
    """A line of ``--output-file``."""
    if not {"completed", "output_throughput"} <= entry.keys() or OWN.isdisjoint(entry):
        return None
    served = Served(Sglang.name, settings=settings_of(entry))
    values_of(entry, served)
    ratio = served.settings.get("range_ratio")
    if (
        isinstance(ratio, (int, float)) and 0 <= ratio < 1
    ):  # lengths from ratio * longest to the longest
        served.settings["shortest"] = ratio
    arguments = entry.get("server_info") or {}
    if isinstance(arguments, dict) and isinstance(arguments.get("tp_size"), int):
        served.facts.tp = arguments["tp_size"]
    return served
