"""NVIDIA's perf_analyzer with the summary of tokens that NVIDIA's DGX Cloud
Benchmarking Recipes print after it.

The rates of tokens follow from the export of the requests; the concurrency and the
number of requests stand before.
"""

import re

from benchrun.logs.lines import Line
from benchrun.logs.serving import Console, own, plain

SECTIONS = {"Time to First Token (TTFT)": "ttft", "Inter-Token Latency (ITL)": "tpot"}
"""Heads of statistics. The inter-token latency is that of genai-perf: a mean for each
request.
"""
STATISTICS = {
    "Avg": "mean",
    "P50": "median",
    "P75": "p75",
    "P90": "p90",
    "P95": "p95",
    "P99": "p99",
}
LABELS = {
    "Input Tokens/sec": "input_tokens_per_s",
    "Output Tokens/sec": "output_tokens_per_s",
    "Avg Input Seq Length": "mean_input_tokens",
    "Avg Output Seq Length": "mean_output_tokens",
}
BEFORE = {
    "Request concurrency": "concurrency",
    "Input Sequence Length": "input_tokens",
    "Output Sequence Length": "output_tokens",
}
_SENDING = re.compile(r"Sending (\d+) benchmark requests")
_THROUGHPUT = re.compile(r"^Throughput: ([\d.]+) infer/sec")


class PerfAnalyzer(Console):
    """A summary with the title TOKEN-LEVEL METRICS."""

    name = "perf-analyzer"
    head_words = "TOKEN-LEVEL METRICS"
    step_needles = (
        *(
            b"TOKEN-LEVEL METRICS",
            b"Input Tokens/sec:",
            b"Output Tokens/sec:",
            b"Avg Input Seq Length:",
        ),
        *(
            b"Avg Output Seq Length:",
            b"Time to First Token (TTFT):",
            b"Inter-Token Latency (ITL):",
            b"Request count:",
        ),
        *(
            b"Request concurrency:",
            b"Input Sequence Length:",
            b"Output Sequence Length:",
            b" benchmark requests",
        ),
        *(b" infer/sec", *(f"  {word}: ".encode() for word in STATISTICS), b"=" * 60),
    )

    def __init__(self) -> None:
        super().__init__()
        self.before: dict[str, float] = {}
        self.section: str | None = None

    def read(self, line: Line) -> None:
        """Take one line, of the measurement or of the summary that follows it."""
        text = own(line.text)
        label, _, value = text.partition(":")
        number = plain(value)
        if self.block is None and number is not None and label in (*BEFORE, "Request count"):
            self.before[label] = number
        elif self.block is None and (match := _SENDING.search(text)):
            self.before["num_prompts"] = float(match[1])
        elif self.block is None and (match := _THROUGHPUT.match(text)):
            self.before["requests_per_s"] = float(match[1])
        super().read(line)

    def take_line(self, text: str) -> None:
        """Take a line of the summary."""
        block, (label, _, value) = self.block, text.partition(":")
        if block is None:
            return
        number = plain(re.sub(r"\s*(ms|tokens)$", "", value.strip()))
        if label in SECTIONS:
            self.section = SECTIONS[label]
        elif label in LABELS and number is not None:
            block.put(LABELS[label], number)
            self.publish()
        elif label in STATISTICS and self.section and number is not None:
            block.put(f"{STATISTICS[label]}_{self.section}_ms", number)
        elif text == "=" * 60 and block.values:
            self.close()

    def close(self) -> None:
        """End the summary, with what was measured before it."""
        if self.block is not None:
            for label, value in self.before.items():
                if label in BEFORE:
                    self.block.settings[BEFORE[label]] = value
                else:
                    self.block.put({"Request count": "completed"}.get(label, label), value)
            values = self.block.values
            if "input_tokens_per_s" in values:
                values["total_tokens_per_s"] = (
                    values["input_tokens_per_s"] + values["output_tokens_per_s"]
                )
        self.before, self.section = {}, None
        super().close()
