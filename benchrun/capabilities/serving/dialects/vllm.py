"""vLLM's client: ``vllm bench serve`` and the older ``benchmark_serving.py``, and their
result files.

Clients of other projects write this form too. The newer one prints ``Total token
throughput`` and failed requests, the older one ``Total Token throughput``, and no
failed requests: their number follows from the arguments it prints.
"""

import math
import re
from collections.abc import Mapping
from typing import Any, ClassVar

from benchrun.logs.lines import Line
from benchrun.logs.serving import Document, Served

from . import Console

RULE = "=" * 50
KEYS = {
    "num_prompts": "num_prompts",
    "completed": "completed",
    "failed": "failed",
    "total_input_tokens": "total_input_tokens",
    "total_output_tokens": "total_output_tokens",
    "duration": "duration_s",
    "request_throughput": "requests_per_s",
    "request_goodput": "goodput_requests_per_s",
    "request_goodput:": "goodput_requests_per_s",
    "output_throughput": "output_tokens_per_s",
    "total_token_throughput": "total_tokens_per_s",
    "total_throughput": "total_tokens_per_s",
    "max_output_tokens_per_s": "peak_output_tokens_per_s",
    "accept_length": "accept_length",
}
"""Key of a result file -> name of the result; some versions wrote a colon into a key.
"""
STATED = {
    "backend": "backend",
    "model_id": "model",
    "max_concurrency": "concurrency",
    "burstiness": "burstiness",
    "dataset_name": "dataset",
    "random_input_len": "input_tokens",
    "random_output_len": "output_tokens",
    "random_range_ratio": "range_ratio",
}
_STATISTIC = re.compile(r"(mean|median|std|max|p[\d.]+)_(ttft|tpot|itl|e2el|e2e_latency)_ms")
_ARGUMENT = re.compile(
    r"\b(num_prompts|max_concurrency|random_input_len|random_output_len|random_range_ratio)=([\d.]+)"
)
_DATASET = re.compile(r"\bdataset_name='([\w-]+)'")
_FIRST = re.compile(r"\bTraffic request rate: (\d[\d.]*?|inf)(?: RPS)?\.?\s*$")
_LIMIT = re.compile(r"\bMaximum request concurrency: (\d+)\s*$")
"""Older releases state both before the block alone."""
LABELS = {
    "Successful requests": "completed",
    "Failed requests": "failed",
    "Benchmark duration (s)": "duration_s",
    "Total input tokens": "total_input_tokens",
    "Total generated tokens": "total_output_tokens",
    "Request throughput (req/s)": "requests_per_s",
    "Request goodput (req/s)": "goodput_requests_per_s",
    "Output token throughput (tok/s)": "output_tokens_per_s",
    "Peak output token throughput (tok/s)": "peak_output_tokens_per_s",
    "Total token throughput (tok/s)": "total_tokens_per_s",
    "Total Token throughput (tok/s)": "total_tokens_per_s",
    "Accept length": "accept_length",
}
HEAD = "Serving Benchmark Result"
NEEDLES: tuple[bytes, ...] = (
    HEAD.encode(),
    RULE.encode(),
    b"num_prompts=",
    b" (tok/s):",
    b" (req/s):",
    b" TTFT (ms):",
    b" TPOT (ms):",
    b" ITL (ms):",
    b" E2EL (ms):",
    b"Successful requests:",
    b"Failed requests:",
    b"Benchmark duration (s):",
    b"Total input tokens:",
    b"Total generated tokens:",
    b"request concurrency:",
    b"Request rate configured (RPS):",
    b"Accept length:",
    b"Traffic request rate:",
)


class Vllm(Console):
    """A block between rules of 50 signs."""

    name = "vllm"
    head_words = HEAD
    step_needles: ClassVar[tuple[bytes, ...]] = NEEDLES
    labels = LABELS
    stated: ClassVar[Mapping[str, str]] = {
        "Maximum request concurrency": "concurrency",
        "Request rate configured (RPS)": "request_rate",
    }

    def __init__(self) -> None:
        super().__init__()
        self.arguments: dict[str, float] = {}
        self.dataset: str | None = None
        self.announced: dict[str, float] = {}
        """Settings that stand before the block."""

    def read(self, line: Line) -> None:
        """Take one line; the client's arguments stand before the block."""
        if self.block is None and "num_prompts=" in line.text and "Namespace(" in line.text:
            self.arguments = {name: float(value) for name, value in _ARGUMENT.findall(line.text)}
            named = _DATASET.search(line.text)
            self.dataset = named[1] if named else None
        elif "Traffic request rate" not in self.stated and (first := _FIRST.search(line.text)):
            self.block, self.announced = (
                None,
                {"request_rate": float(first[1])},
            )  # the end of another client's output, if one was cut off
        elif self.block is None and (limit := _LIMIT.search(line.text)):
            self.announced["concurrency"] = float(limit[1])
        super().read(line)

    def take_line(self, text: str) -> None:
        """Take a line of the block; its end has the arguments that no line of it
        states.
        """
        if text != RULE:
            super().take_line(text)
        elif self.block is not None:
            if "num_prompts" in self.arguments:
                self.block.put("num_prompts", self.arguments["num_prompts"])
            for name, value in self.arguments.items():
                if name in STATED:
                    self.block.settings.setdefault(STATED[name], value)
            self.block.settings, self.announced = self.announced | self.block.settings, {}
            if self.dataset:
                self.block.settings.setdefault("dataset", self.dataset)
            around_mean(of_random_prompts(self.block.settings))
            self.close()


def settings_of(document: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of the requests that a result file states; ``inf`` is a text in some
    files, and a number in others.
    """
    stated = {}
    for key, name in STATED.items():
        if document.get(key) is not None:
            stated[name] = document[key]
    rate = document.get("request_rate")
    if rate is not None:
        stated["request_rate"] = math.inf if str(rate).lower() in ("inf", "infinity") else rate
    return of_random_prompts(stated)


def of_random_prompts(settings: dict[str, Any]) -> dict[str, Any]:
    """Return the settings without the lengths of random prompts if a data set has the
    prompts: clients state them all the same.
    """
    if not str(settings.get("dataset", "random")).startswith("random"):
        for name in ("input_tokens", "output_tokens", "range_ratio"):
            settings.pop(name, None)
    return settings


def around_mean(settings: dict[str, Any]) -> None:
    """Add the shortest length as a share of the longest: vLLM draws lengths from mean *
    (1 - ratio) to (1 + ratio).
    """
    ratio = settings.get("range_ratio")
    if isinstance(ratio, (int, float)) and 0 < ratio < 1:
        settings["shortest"] = round((1 - ratio) / (1 + ratio), 4)
        for side in ("input_tokens", "output_tokens"):
            if isinstance(settings.get(side), (int, float)):
                settings[f"longest_{side}"] = round(settings[side] * (1 + ratio))


def values_of(document: Mapping[str, Any], served: Served) -> None:
    """Add the numbers of a result file. Its arrays, which are in seconds, are left
    alone.
    """
    for key, value in document.items():
        if match := _STATISTIC.fullmatch(key):
            served.put(f"{match[1]}_{match[2].replace('e2e_latency', 'e2el')}_ms", value)
        elif key in KEYS:
            served.put(KEYS[key], value)
    errors = document.get("errors")  # one text for each request, empty for those that were answered
    if isinstance(errors, list) and (count := sum(map(bool, errors))) > served.values.get(
        "failed", 0
    ):
        served.put("failed", count)


def document(entry: Document) -> Served | None:
    """A file of ``--save-result``."""
    if not {"completed", "output_throughput", "request_throughput"} <= entry.keys():
        return None
    served = Served(Vllm.name, settings=settings_of(entry))
    values_of(entry, served)
    around_mean(served.settings)
    return served
