"""TensorRT-LLM's ``trtllm-bench throughput`` and ``latency``, on the console and in the
file of ``--report_json``.

There is no server: all requests wait in a queue, so that the time to the first token
has the waiting in it. Release 0.17 has one ``Token Throughput``, which counts output
tokens.
"""

import re

from benchrun.logs.lines import Line
from benchrun.logs.serving import Document, Served, plain
from benchrun.vocabulary import MOST_GPUS

from . import Console, own, part

RULE = "=" * 59
LABELS = {
    "Number of requests": "num_prompts",
    "Average Input Length": "mean_input_tokens",
    "Average Output Length": "mean_output_tokens",
    "Number of concurrent requests": "mean_concurrency",
    "Request Throughput": "requests_per_s",
    "Token Throughput": "output_tokens_per_s",
    "Total Output Throughput": "output_tokens_per_s",
    "Total Token Throughput": "total_tokens_per_s",
    "Per GPU Output Throughput": "output_tokens_per_s_per_gpu",
    "Per User Output Throughput": "output_tokens_per_s_per_user",
    "Average request latency": "mean_e2el_ms",
    "Average time-to-first-token": "mean_ttft_ms",
    "Average time-per-output-token": "mean_tpot_ms",
}
"""Label without units and remarks in brackets -> name of the result."""
SIZES = {"TP Size": "tp", "PP Size": "pp", "EP Size": "ep"}
_BRACKETS = re.compile(r"\s*[\[(][^\])]*[\])]")
_STATISTIC = re.compile(r"\[(TTFT|TPOT|Latency)\] (MINIMUM|MAXIMUM|AVERAGE|P\d+)$")
_WORDS = {"MINIMUM": "min", "MAXIMUM": "max", "AVERAGE": "mean", "P50": "median", "Latency": "e2el"}


class TensorRT(Console):
    """Sections with titles; what follows the overview of the performance ends with a
    rule.
    """

    name = "trtllm"
    head_words = "= WORLD + RUNTIME INFORMATION"
    step_needles = (
        b"= WORLD + RUNTIME INFORMATION",
        b"= PERFORMANCE OVERVIEW",
        b"= REQUEST DETAILS",
        b"= DATASET DETAILS",
        b" Throughput (",
        b" Throughput [w/ ctx]",
        b"Total Latency (ms):",
        b"Average request latency",
        b"[TTFT] ",
        b"Average time-to-first-token",
        b"Average time-per-output-token",
        b"[TPOT] ",
        b"[Latency] ",
        RULE.encode(),
        b"Number of requests:",
        b"Number of concurrent requests:",
        b"Average Input Length",
        b"Average Output Length",
        b"TP Size:  ",
        b"PP Size:  ",
        b"EP Size:  ",
        b"TP Size:\t",
        b"PP Size:\t",
        b"EP Size:\t",
    )

    def __init__(self) -> None:
        super().__init__()
        self.details: dict[str, float] = {}
        """Details of the requests, which newer releases print before the runtime's
        section.
        """

    def read(self, line: Line) -> None:
        """Take one line."""
        text = own(line.text)
        if text.endswith("= REQUEST DETAILS"):
            self.details = {}
        if self.block is None and (match := self._labelled(text)) is not None:
            self.details[match[0]] = match[1]
        if self.head_words in text and self.block is not None:
            self.block = None
        super().read(line)
        if self.block is not None and text.endswith("= DATASET DETAILS"):
            self.close()

    def take_line(self, text: str) -> None:
        """Take a line of the block."""
        block = self.block
        if block is None:
            return
        label, _, value = text.rpartition(":")
        if label.strip() in SIZES and (size := plain(value)) and size == int(size):
            setattr(block.facts, SIZES[label.strip()], int(size))
        elif match := _STATISTIC.fullmatch(label.strip()):
            name, number = _WORDS.get(match[1], match[1].lower()), plain(value)
            if number is not None:
                block.put(f"{_WORDS.get(match[2], match[2].lower())}_{name}_ms", number)
                self.publish()
        elif label.strip() == "Total Latency (ms)" and (number := plain(value)) is not None:
            block.put("duration_s", number, 0.001)
        elif (pair := self._labelled(text)) is not None:
            for name, number in {**self.details, pair[0]: pair[1]}.items():
                block.put(name, number)
            self.publish()
        elif text == RULE and "requests_per_s" in block.values and "duration_s" in block.values:
            self.close()

    def close(self) -> None:
        """End the block: all requests of an offline benchmark were answered."""
        if self.block is not None:
            derive(self.block)
        super().close()
        self.details = {}

    def _labelled(self, text: str) -> tuple[str, float] | None:
        label, _, value = text.rpartition(":")
        name, number = LABELS.get(text_of(label)), plain(value)
        return None if name is None or number is None else (name, number)


def text_of(label: str) -> str:
    """A label without brackets: ``Per User Output Throughput [w/ ctx] (tps/user)``."""
    return _BRACKETS.sub("", label).strip()


def derive(served: Served) -> None:
    """Add what follows from the printed numbers: counts of tokens and of GPUs."""
    values, facts = served.values, served.facts
    served.settings["offline"] = True
    if (requests := values.get("num_prompts")) is not None:
        values["completed"] = requests
        for side in ("input", "output"):
            if f"mean_{side}_tokens" in values:
                values[f"total_{side}_tokens"] = values[f"mean_{side}_tokens"] * requests
    rates = [values.get(name) for name in ("output_tokens_per_s", "output_tokens_per_s_per_gpu")]
    block = facts.tp * (facts.pp or 1) if facts.tp is not None else None
    made = round(min(rates[0] / rates[1], MOST_GPUS)) if rates[0] and rates[1] else 0
    facts.num_gpus = made if made and made % (block or 1) == 0 else block


PERFORMANCE = {
    "request_throughput_req_s": ("requests_per_s", 1.0),
    "system_output_throughput_tok_s": ("output_tokens_per_s", 1.0),
    "system_total_throughput_tok_s": ("total_tokens_per_s", 1.0),
    "output_throughput_per_gpu_tok_s": ("output_tokens_per_s_per_gpu", 1.0),
    "output_throughput_per_user_tok_s": ("output_tokens_per_s_per_user", 1.0),
    "avg_request_latency_ms": ("mean_e2el_ms", 1.0),
    "total_latency_ms": ("duration_s", 0.001),
}
REQUESTS = {
    "num_requests": "num_prompts",
    "avg_input_length": "mean_input_tokens",
    "avg_output_length": "mean_output_tokens",
    "avg_num_concurrent_requests": "mean_concurrency",
}
PERCENTILES = {
    "ttft_percentiles": "ttft",
    "tpot_percentiles": "tpot",
    "request_latency_percentiles_ms": "e2el",
}


def document(entry: Document) -> Served | None:
    """A file of ``--report_json``."""
    performance = entry.get("performance")
    if not isinstance(performance, dict) or "system_output_throughput_tok_s" not in performance:
        return None
    served, streaming = Served(TensorRT.name), part(entry, "streaming_metrics")
    for key, (name, scale) in PERFORMANCE.items():
        served.put(name, performance.get(key), scale)
    for key, name in REQUESTS.items():
        served.put(name, part(entry, "request_info").get(key))
    served.put("mean_ttft_ms", streaming.get("avg_ttft_ms"))
    served.put("mean_tpot_ms", streaming.get("avg_tpot_ms"))
    for key, latency in PERCENTILES.items():
        for statistic, value in part({**streaming, **performance}, key).items():
            name = _WORDS.get(str(statistic).upper(), str(statistic).lower())
            served.put(f"{name}_{latency}_ms", value)
    world = part(entry, "world_info")
    for key, fact in (("tp_size", "tp"), ("pp_size", "pp"), ("ep_size", "ep")):
        if type(size := world.get(key)) is int and 0 < size <= MOST_GPUS:
            setattr(served.facts, fact, size)
    derive(served)
    return served
