"""NVIDIA's genai-perf and its successor aiperf: the table on the console, and the files
of their export.

Their inter-token latency is one value per request, (latency - time to first token) /
(tokens - 1): the time per output token of the other clients, and it is read as that.
"""

import re
from collections.abc import Iterator
from typing import Any

from benchrun.logs.lines import Line
from benchrun.logs.serving import Document, Served, plain

from . import Console, own, part

ROWS = {
    "time to first token": "ttft",
    "inter token latency": "tpot",
    "request latency": "e2el",
}
"""Rows with statistics, in ms."""
AVERAGES = {
    "output token throughput": "output_tokens_per_s",
    "total token throughput": "total_tokens_per_s",
    "request throughput": "requests_per_s",
    "request goodput": "goodput_requests_per_s",
    "goodput": "goodput_requests_per_s",
    "request count": "completed",
    "error request count": "failed",
    "output sequence length": "mean_output_tokens",
    "num output token": "mean_output_tokens",
    "num input token": "mean_input_tokens",
    "input sequence length": "mean_input_tokens",
    "benchmark duration": "duration_s",
    "output token throughput per user": "output_tokens_per_s_per_user",
    "total output tokens": "total_output_tokens",
    "total input sequence length": "total_input_tokens",
    "total isl": "total_input_tokens",
    "total output sequence length": "total_output_tokens",
    "total osl": "total_output_tokens",
}
"""Rows of which the average counts."""
STATISTICS = {"avg": "mean", "p50": "median"}
IN_MS = {
    **dict.fromkeys(("s", "sec", "second", "seconds"), 1000.0),
    **dict.fromkeys(("ms", "msec", "millisecond", "milliseconds"), 1.0),
    **dict.fromkeys(
        (
            "us",
            "\N{MICRO SIGN}s",
            "\N{GREEK SMALL LETTER MU}s",
            "usec",
            "microsecond",
            "microseconds",
        ),
        1e-3,
    ),
    **dict.fromkeys(("ns", "nsec", "nanosecond", "nanoseconds"), 1e-6),
}
"""Unit of a time -> what it is in ms; a latency in any other unit is left out."""
KEPT = re.compile(r"avg|p[\d.]+|max|min|std")
_UNIT = re.compile(r"\s*\(([^)]*?)(?:\)|(\u2026|\.\.\.))\s*$")
"""The unit at the end of a label; a narrow terminal cuts it: ``Request Latency (m...``.
"""
_BELOW = re.compile(r"((?:Output token|Request) throughput) \(per sec\): (\S+)")
"""A rate that stands below the box, as until 2024."""
_CELLS = re.compile("[│|┃]")


def place(label: str) -> tuple[str, float, bool] | None:
    """Label with its unit -> latency or result, factor to our unit, whether it has
    statistics; None for others.
    """
    unit = _UNIT.search(label)
    words = _UNIT.sub("", label).replace("_", " ").lower().strip()
    if words in ROWS:
        scale = _in_ms(unit, "ms")
        return None if scale is None else (ROWS[words], scale, True)
    if words in AVERAGES:
        name = AVERAGES[words]
        scale = (_in_ms(unit, "s") or 1000.0) / 1000 if name == "duration_s" else 1.0
        return name, scale, False
    return None


def _in_ms(unit: re.Match[str] | None, usual: str) -> float | None:
    """Return the time of one ``unit`` in ms; None for another unit, or one cut so that
    several fit.
    """
    text = unit[1].lower() if unit else usual
    if unit is None or unit[2] is None:
        return IN_MS.get(text)
    short = {}
    for name, scale in IN_MS.items():
        if len(name) <= len("sec"):
            short[name] = scale
    scales = {scale for name, scale in short.items() if name.startswith(text)}
    return scales.pop() if len(scales) == 1 else None


def put(served: Served, label: str, cells: dict[str, Any]) -> None:
    """Add a row: statistic -> its cell."""
    if (at := place(label)) is None:
        return
    name, scale, with_statistics = at
    for statistic, cell in cells.items():
        value = plain(cell) if isinstance(cell, str) else cell
        if value is None or not KEPT.fullmatch(statistic):
            continue
        if with_statistics:
            served.put(f"{STATISTICS.get(statistic, statistic)}_{name}_ms", value, scale)
        elif statistic == "avg":
            served.put(name, value, scale)


class GenaiPerf(Console):
    """A box with a row for each metric; a long label goes on in the next line of its
    cell.
    """

    name = "genai-perf"
    head_words = "LLM Metrics"
    step_needles = (
        b"LLM Metrics",
        b" Metrics   ",
        "┃".encode() + b" ",
        "│".encode() + b" ",
        "└───────────".encode(),
        b"Input Sequence Length",
        b"Output Sequence Length",
        b"Output Token Throughput",
        b" throughput (per sec): ",
    )

    def __init__(self) -> None:
        super().__init__()
        self.columns: list[str] = []
        self.row: tuple[str, list[str]] | None = None

    def read(self, line: Line) -> None:
        """Take one line of a box."""
        text = own(line.text)
        if not self.whole(line):
            return
        if self.head_words in text:
            self._begin()
        elif self.block is not None and text.startswith("└"):
            self._flush()
            self.close()
        elif self.block is None and self.served and (below := _BELOW.search(text)):
            put(self.served[-1], below[1], {"avg": below[2]})
        elif self.block is not None and (
            cells := [cell.strip() for cell in _CELLS.split(text)[1:-1]]
        ):
            self._cells(cells)

    def _begin(self) -> None:
        self.block, self.columns, self.row = Served(self.name, closed=False), [], None

    def _cells(self, cells: list[str]) -> None:
        if "avg" in cells:
            self.columns = cells[1:]
        elif not any(cells[1:]) and self.row:
            self.row = f"{self.row[0]} {cells[0]}", self.row[1]
        else:
            self._flush()
            self.row = cells[0], cells[1:]

    def _flush(self) -> None:
        if self.row and self.block is not None and self.columns:
            put(self.block, self.row[0], dict(zip(self.columns, self.row[1], strict=False)))
            if self.block.values:
                self.publish()
        self.row = None


def document(entry: Document) -> Served | None:
    """A file of the JSON export: metric -> unit and statistics."""
    metrics = entry.get("llm_metrics") or entry.get("records") or entry
    if not isinstance(metrics, dict) or not isinstance(metrics.get("time_to_first_token"), dict):
        return None
    if "avg" not in metrics["time_to_first_token"]:
        return None
    served = Served(GenaiPerf.name, settings=dict(_settings(entry.get("input_config") or {})))
    for name, cells in metrics.items():
        if isinstance(cells, dict):
            unit = cells.get("unit")
            put(served, f"{name} ({unit})" if unit else name, cells)
        elif isinstance(cells, (int, float)):
            put(served, name, {"avg": cells})
    _failures(entry, served)
    return served


def _failures(entry: Document, served: Served) -> None:
    """Requests that failed, if no metric counts them; a benchmark that was cancelled
    has no end.
    """
    counted = []
    for each in entry.get("error_summary") or ():
        if isinstance(each, dict):
            counted.append(each.get("count"))
    if "failed" not in served.values and counted:
        served.put("failed", sum(count for count in counted if type(count) is int))
    served.closed = entry.get("was_cancelled") is not True


def _settings(configured: Any) -> Iterator[tuple[str, Any]]:
    """Concurrency and lengths, if the configuration has them at one of their places."""
    wanted = {"concurrency": "concurrency", "request_rate": "request_rate"}
    if not isinstance(configured, dict):
        return
    for source in (
        configured,
        part(part(configured, "perf_analyzer"), "stimulus"),
        part(configured, "loadgen"),
    ):
        yield from (
            (name, source[key])
            for key, name in wanted.items()
            if isinstance(source.get(key), (int, float))
        )
