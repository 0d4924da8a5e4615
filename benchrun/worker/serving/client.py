"""Measures a server with an OpenAI interface and prints the result in the form of
vLLM's ``vllm bench serve``.

``python -m benchrun.worker.serving.client --spec SPEC --port PORT --model NAME --output
FILE``. Prompts are random words of the tokenizer in
`benchrun.worker.serving.checkpoint`. Definitions are those of vLLM's client: the time
per output token of a request is (latency - time to first token) / (tokens - 1), the
inter-token latency pools the gaps between all chunks, rates are tokens of the answered
requests over the time from the first request to the last answer.
"""

import asyncio
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from benchrun.runspec.inference import InferenceSpec
from benchrun.worker import entry

from .checkpoint import word

TIMEOUT_S = 600.0
"""A request that takes longer has failed."""
PERCENTILES = (50, 90, 95, 99)


@dataclass
class Request:
    """A prompt, and the number of tokens to be generated."""

    prompt: str
    input_tokens: int
    output_tokens: int


@dataclass
class Answer:
    """Answer of the server; times in seconds."""

    input_tokens: int
    error: str | None = None
    output_tokens: int = 0
    ttft_s: float = 0.0
    latency_s: float = 0.0
    gaps_s: list[float] = field(default_factory=list)
    """Seconds between the chunks of the stream."""

    @property
    def tpot_s(self) -> float:
        """Time per output token after the first one; 0 of a single token."""
        if self.output_tokens < 2:
            return 0.0
        return (self.latency_s - self.ttft_s) / (self.output_tokens - 1)


def requests(spec: InferenceSpec, count: int, seed: int) -> list[Request]:
    """``count`` random prompts whose lengths are uniform from ``shortest`` times the
    stated ones to these."""
    random = np.random.default_rng(seed)
    lengths = []
    for most in (spec.input_tokens, spec.output_tokens):
        lengths.append(random.integers(max(1, int(spec.shortest * most)), most + 1, count))
    drawn = []
    for inputs, outputs in zip(*lengths, strict=True):
        prompt = " ".join(map(word, random.integers(0, spec.model.vocab_size, inputs)))
        drawn.append(Request(prompt, int(inputs), int(outputs)))
    return drawn


async def ask(port: int, model: str, request: Request) -> Answer:
    """Send one request and read its stream."""
    answer = Answer(request.input_tokens)
    body = {
        "model": model,
        "prompt": request.prompt,
        "max_tokens": request.output_tokens,
        "stream": True,
    }
    body |= {"temperature": 0, "stream_options": {"include_usage": True}}
    try:
        await asyncio.wait_for(_exchange(port, json.dumps(body).encode(), answer), TIMEOUT_S)
    except (OSError, ValueError, EOFError, asyncio.TimeoutError) as error:
        answer.error = f"{type(error).__name__}: {error}"
    if answer.error is None and not answer.output_tokens:
        answer.error = "the stream has no token"
    return answer


async def _exchange(port: int, body: bytes, answer: Answer) -> None:
    began = time.perf_counter()
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 22)
    try:
        kind = "Content-Type: application/json\r\nConnection: close"
        head = f"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n{kind}\r\nContent-Length: {len(body)}\r\n\r\n"
        writer.write(head.encode() + body)
        await writer.drain()
        status = await reader.readline()
        while (await reader.readline()).strip():
            pass  # the head of the answer
        if b" 200 " not in status:
            raise ValueError(f"{status.decode(errors='replace').strip()}")
        chunks, last = 0, began
        async for line in reader:  # between the lines of a stream stand the sizes of its chunks
            if not line.startswith(b"data: {"):
                continue
            entry = json.loads(line[len(b"data: ") :])
            if "error" in entry:
                raise ValueError(str(entry["error"]))
            now = time.perf_counter()
            usage, choices = entry.get("usage"), entry.get("choices") or [{}]
            if usage:
                answer.output_tokens = int(usage["completion_tokens"])
            if choices[0].get("text"):
                if chunks:
                    answer.gaps_s.append(now - last)
                else:
                    answer.ttft_s = now - began
                chunks, last = chunks + 1, now
        answer.latency_s = last - began
        answer.output_tokens = answer.output_tokens or chunks
    finally:
        writer.close()


async def benchmark(spec: InferenceSpec, port: int, model: str) -> tuple[list[Answer], float]:
    """The answers to all measured requests, and the seconds that they took together."""
    slots = asyncio.Semaphore(spec.concurrency or spec.num_prompts)

    async def one(request: Request, after_s: float = 0.0) -> Answer:
        await asyncio.sleep(after_s)
        async with slots:
            return await ask(port, model, request)

    # Other prompts than the measured ones, so that no cache has those.
    warm = await asyncio.gather(*map(one, requests(spec, spec.warmups, spec.seed + 1)))
    broken = [answer.error for answer in warm if answer.error]
    if broken:
        raise SystemExit(
            f"benchrun: {len(broken)} of {len(warm)} requests to warm up failed: {broken[0]}"
        )
    measured, random = requests(spec, spec.num_prompts, spec.seed), np.random.default_rng(spec.seed)
    delays = np.zeros(len(measured))
    if spec.request_rate:
        delays = np.cumsum(random.exponential(1 / spec.request_rate, len(measured)))
    began = time.perf_counter()
    answers = await asyncio.gather(*map(one, measured, delays))
    return list(answers), time.perf_counter() - began


def summary(
    spec: InferenceSpec, answers: Sequence[Answer], duration_s: float, model: str
) -> dict[str, Any]:
    """The result with the keys of vLLM's result file."""
    good = [answer for answer in answers if answer.error is None]
    inputs = sum(answer.input_tokens for answer in good)
    outputs = sum(answer.output_tokens for answer in good)
    document: dict[str, Any] = {
        "date": time.strftime("%Y%m%d-%H%M%S"),
        "backend": spec.framework,
        "model_id": model,
        "num_prompts": spec.num_prompts,
        "request_rate": spec.request_rate or "inf",
        "max_concurrency": spec.concurrency,
        "duration": duration_s,
        "completed": len(good),
        "failed": len(answers) - len(good),
        "total_input_tokens": inputs,
        "total_output_tokens": outputs,
        "request_throughput": len(good) / duration_s,
        "request_goodput": _within(spec, good) / duration_s if spec.goodput else None,
        "output_throughput": outputs / duration_s,
        "total_token_throughput": (inputs + outputs) / duration_s,
    }
    latencies = {
        "ttft": [answer.ttft_s for answer in good],
        "tpot": [answer.tpot_s for answer in good if answer.output_tokens > 1],
        "itl": [*chain.from_iterable(answer.gaps_s for answer in good)],
        "e2el": [answer.latency_s for answer in good],
    }
    for name, seconds in latencies.items():
        ms = 1000 * np.array(seconds or [0.0])
        document[f"mean_{name}_ms"] = float(ms.mean())
        document[f"median_{name}_ms"] = float(np.median(ms))
        document[f"std_{name}_ms"] = float(ms.std())
        for rank in PERCENTILES:
            document[f"p{rank}_{name}_ms"] = float(np.percentile(ms, rank))
    return document


def _within(spec: InferenceSpec, answers: Sequence[Answer]) -> int:
    """Number of answers that meet every limit."""
    good = 0
    for answer in answers:
        seconds = {"ttft": answer.ttft_s, "tpot": answer.tpot_s, "e2el": answer.latency_s}
        good += all(seconds[name] <= limit / 1000 for name, limit in spec.goodput.items())
    return good


def block(document: dict[str, Any]) -> str:
    """The result as vLLM's client prints it."""
    whole = {
        "Successful requests:": document["completed"],
        "Failed requests:": document["failed"],
        "Maximum request concurrency:": document["max_concurrency"],
        "Request rate configured (RPS):": None
        if document["request_rate"] == "inf"
        else document["request_rate"],
        "Benchmark duration (s):": document["duration"],
        "Total input tokens:": document["total_input_tokens"],
        "Total generated tokens:": document["total_output_tokens"],
        "Request throughput (req/s):": document["request_throughput"],
        "Request goodput (req/s):": document["request_goodput"],
        "Output token throughput (tok/s):": document["output_throughput"],
        "Total token throughput (tok/s):": document["total_token_throughput"],
    }
    lines = [f"{' Serving Benchmark Result ':=^50}"]
    lines += [_line(label, value) for label, value in whole.items() if value is not None]
    titles = {
        "ttft": "Time to First Token",
        "tpot": "Time per Output Token (excl. 1st token)",
        "itl": "Inter-token Latency",
        "e2el": "End-to-end Latency",
    }
    for name, title in titles.items():
        lines.append(f"{title:-^50}")
        for statistic in ("Mean", "Median", *map("P{}".format, PERCENTILES)):
            value = document[f"{statistic.lower()}_{name}_ms"]
            lines.append(_line(f"{statistic} {name.upper()} (ms):", value))
    return "\n".join([*lines, "=" * 50])


def _line(label: str, value: float) -> str:
    if isinstance(value, int):
        return f"{label:<40} {value:<10}"
    return f"{label:<40} {value:<10.2f}"


def main() -> None:
    """Measure, write the result, print it. Exit code 1 if no request was answered."""
    arguments = entry.arguments(__doc__, port=int, model=str, output=Path)
    spec = InferenceSpec.read(arguments.spec)
    answers, duration_s = asyncio.run(benchmark(spec, arguments.port, arguments.model))
    document = summary(spec, answers, duration_s, arguments.model)
    arguments.output.write_text(json.dumps(document) + "\n", encoding="utf-8")
    errors = sorted({answer.error for answer in answers if answer.error})[:5]
    lines = [block(document), *(f"benchrun: a request failed: {error}" for error in errors)]
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    raise SystemExit(0 if document["completed"] else 1)


if __name__ == "__main__":
    main()
