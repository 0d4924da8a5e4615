"""Benchmarks of servers, written from a stated truth: vLLM's, SGLang's and TensorRT-LLM's clients."""

import json
from dataclasses import dataclass
from random import Random
from typing import Any

from .forms.base import Line
from .judge import Finding
from .product import Answer
from .wrap import WRAPPERS, wrapped

TOLERANCE = 0.006
"""Relative difference that the printed digits explain."""
WRONG = ("rate", "instant", "failed")
"""A rate that tokens and duration refute; answers that took no time; no answer at all."""


@dataclass(frozen=True)
class Served:
    """One benchmark of a server."""

    form: str
    wrapper: str = "plain"
    requests: int = 128
    concurrency: int = 16
    input_tokens: int = 1000
    output_tokens: int = 500
    ttft_ms: float = 80.0
    tpot_ms: float = 12.0
    wrong: str | None = None
    seed: int = 0

    @property
    def e2el_ms(self) -> float:
        return self.ttft_ms + self.tpot_ms * (self.output_tokens - 1)

    @property
    def duration_s(self) -> float:
        return self.requests * self.e2el_ms / 1000 / self.concurrency

    @property
    def rates(self) -> dict[str, float]:
        """Requests and tokens per second of the whole server."""
        out = self.requests * self.output_tokens / self.duration_s
        return {
            "requests_per_s": self.requests / self.duration_s,
            "output_tokens_per_s": out,
            "total_tokens_per_s": out * (1 + self.input_tokens / self.output_tokens),
        }


def draw_served(random: Random, form: str, wrapper: str) -> Served:
    """One benchmark; a fifth of them are wrong."""
    slots = random.choice((1, 8, 16, 64))
    return Served(
        form,
        wrapper if form in TEXTS and wrapper in AROUND else "plain",
        requests=slots * random.randint(4, 40),
        concurrency=slots,
        input_tokens=random.choice((128, 1000, 4000)),
        output_tokens=random.choice((128, 500, 1000)),
        ttft_ms=round(random.uniform(20, 400), 2),
        tpot_ms=round(random.uniform(5, 40), 2),
        wrong=random.choice(WRONG) if random.random() < 0.2 else None,
        seed=random.randrange(1 << 20),
    )


def _values(truth: Served) -> dict[str, float]:
    """Everything that a client prints; with what is wrong in it."""
    rates = truth.rates
    values = {
        "completed": truth.requests,
        "duration": truth.duration_s,
        "input": truth.requests * truth.input_tokens,
        "output": truth.requests * truth.output_tokens,
        "req": rates["requests_per_s"],
        "out": rates["output_tokens_per_s"],
        "total": rates["total_tokens_per_s"],
        "ttft": truth.ttft_ms,
        "tpot": truth.tpot_ms,
        "e2el": truth.e2el_ms,
    }
    if truth.wrong == "rate":
        values |= {"out": 2 * values["out"], "total": 2 * values["total"]}
    elif truth.wrong == "instant":
        values |= {"ttft": 0.0, "tpot": 0.0}
    elif truth.wrong == "failed":
        values = dict.fromkeys(values, 0.0) | {"duration": 1.5}
    return values


def _row(label: str, value: Any) -> str:
    return f"{label:<40} {value if isinstance(value, int) else f'{value:.2f}':<10}"


def _latency(v: dict[str, float], name: str, key: str) -> list[str]:
    return [_row(f"{word} {name} (ms):", v[key]) for word in ("Mean", "Median", "P99")]


def _vllm(truth: Served, v: dict[str, float]) -> list[str]:
    failed = truth.requests if truth.wrong == "failed" else 0
    return [
        " Serving Benchmark Result ".center(50, "="),
        _row("Successful requests:", int(v["completed"])),
        _row("Failed requests:", failed),
        _row("Maximum request concurrency:", truth.concurrency),
        _row("Benchmark duration (s):", v["duration"]),
        _row("Total input tokens:", int(v["input"])),
        _row("Total generated tokens:", int(v["output"])),
        _row("Request throughput (req/s):", v["req"]),
        _row("Output token throughput (tok/s):", v["out"]),
        _row("Total Token throughput (tok/s):", v["total"]),
        "Time to First Token".center(50, "-"),
        *_latency(v, "TTFT", "ttft"),
        "Time per Output Token (excl. 1st token)".center(50, "-"),
        *_latency(v, "TPOT", "tpot"),
        "=" * 50,
    ]


def _sglang(truth: Served, v: dict[str, float]) -> list[str]:
    return [
        " Serving Benchmark Result ".center(50, "="),
        f"{'Backend:':<40} sglang    ",
        _row("Max request concurrency:", truth.concurrency),
        _row("Successful requests:", int(v["completed"])),
        _row("Benchmark duration (s):", v["duration"]),
        _row("Total input tokens:", int(v["input"])),
        _row("Total generated tokens:", int(v["output"])),
        _row("Request throughput (req/s):", v["req"]),
        _row("Output token throughput (tok/s):", v["out"]),
        _row("Total token throughput (tok/s):", v["total"]),
        "End-to-End Latency".center(50, "-"),
        *_latency(v, "E2E Latency", "e2el"),
        "Time to First Token".center(50, "-"),
        *_latency(v, "TTFT", "ttft"),
        "Time per Output Token (excl. 1st token)".center(50, "-"),
        *_latency(v, "TPOT", "tpot"),
        "=" * 50,
    ]


def _trtllm(truth: Served, v: dict[str, float]) -> list[str]:
    rule = "=" * 59
    return [
        rule,
        "= ENGINE DETAILS",
        rule,
        "TensorRT-LLM Version:   0.17.0.post1",
        "Dtype:                  bfloat16",
        rule,
        "= WORLD + RUNTIME INFORMATION",
        rule,
        "TP Size:                8",
        "PP Size:                1",
        f"Max Runtime Batch Size: {truth.concurrency}",
        "",
        rule,
        "= PERFORMANCE OVERVIEW",
        rule,
        f"Number of requests:             {int(v['completed'])}",
        f"Average Input Length (tokens):  {truth.input_tokens:.4f}",
        f"Average Output Length (tokens): {truth.output_tokens:.4f}",
        f"Token Throughput (tokens/sec):  {v['out']:.4f}",
        f"Request Throughput (req/sec):   {v['req']:.4f}",
        f"Total Latency (ms):             {v['duration'] * 1000:.4f}",
        "",
        rule,
    ]


def _json(truth: Served, v: dict[str, float]) -> list[str]:
    record: dict[str, Any] = {"max_concurrency": truth.concurrency, "request_rate": "inf"}
    record |= {"backend": truth.form.partition("-")[0], "completed": int(v["completed"])}
    record |= {"duration": v["duration"], "total_input_tokens": int(v["input"])}
    record |= {"total_output_tokens": int(v["output"]), "request_throughput": v["req"]}
    record |= {"output_throughput": v["out"]}
    total = "total_token_throughput" if truth.form == "vllm-json" else "total_throughput"
    record |= {total: v["total"]}
    for name in ("ttft", "tpot"):
        record |= {f"{word}_{name}_ms": v[name] for word in ("mean", "median", "p99")}
    if truth.form == "sglang-jsonl":
        record |= {"mean_e2e_latency_ms": v["e2el"], "median_e2e_latency_ms": v["e2el"]}
    return [json.dumps(record)]


AROUND = ("plain", "crlf", "noise", "srun", "ansi", "docker", "cloud", "cri", "stamp", "relative")
"""What may stand around the lines of a client."""
TEXTS = {"vllm": _vllm, "sglang": _sglang, "trtllm": _trtllm}
JSON = {"vllm-json": _json, "sglang-jsonl": _json}
FORMS = TEXTS | JSON
"""Every client: what it prints of a truth."""


def served_log(truth: Served) -> bytes:
    """The file."""
    texts = FORMS[truth.form](truth, _values(truth))
    wrapper = truth.wrapper if truth.wrapper in WRAPPERS else "plain"
    return wrapped([Line(text) for text in texts], wrapper, 1, truth.seed)


def judge_served(truth: Served, answer: Answer) -> list[Finding]:
    """What benchrun says wrongly of a server."""
    if truth.wrong:
        silent = truth.wrong == "instant" and truth.form == "trtllm"  # prints no latency
        if answer.code == 4 or silent:
            return []
        return [Finding(f"exit code {answer.code}, server {truth.wrong}", "4", answer.stderr[:200])]
    if answer.code != 0 or len(answer.documents) != 1:
        problems = [problem["detail"] for run in answer.documents for problem in run["problems"]]
        return [Finding(f"exit code {answer.code}, server sound", "0", f"{problems} {answer.stderr[:200]}")]
    results = answer.documents[0]["results"]
    right = truth.rates | {"duration_s": truth.duration_s, "completed": float(truth.requests)}
    if truth.form != "trtllm":
        right |= {"mean_ttft_ms": truth.ttft_ms, "mean_tpot_ms": truth.tpot_ms}
    found = []
    for name, value in right.items():
        said = results.get(name)
        if said is None or abs(said - value) > TOLERANCE * value + 0.006:
            found.append(Finding(f"wrong {name}", str(value), str(said)))
    return found
