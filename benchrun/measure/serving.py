"""Problems of the result of a server's benchmark, and numbers that do not mean what
they say.
"""

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from benchrun.logs.records import Log, Problem
from benchrun.logs.serving import LATENCIES, Served

SEVERAL_TOKENS = 2.0
"""A chunk of a stream holds several tokens if the gap between chunks exceeds the time
per token this many times.
"""
OTHER_LENGTH = 0.02
"""Relative difference of a mean length from the one asked for above which it is named.
"""
CONTRADICTION = 0.02
"""Relative difference of a rate from tokens over duration above which it contradicts
its own record.
"""
RISING = ("min", "median", "p75", "p90", "p95", "p99", "p99.9", "max")
"""Each of these statistics of a latency is at least as large as those before it."""
MOST_IN_FLIGHT, LEAST_IN_FLIGHT = 1.25, 0.1
"""Share of the concurrency: more requests are never in flight, and fewer not in a
benchmark that sends at once.
"""
LAST_DIGIT_S = 0.005
"""Half of the last digit of a duration on a console."""


def result_problems(log: Log, num_prompts: int | None = None) -> Iterator[Problem]:
    """Problems of the last result of ``log``; ``num_prompts`` is what was to be sent,
    if the caller knows it.
    """
    if not log.served:
        return
    served = log.served[-1]
    values, settings = served.values, served.settings
    if not served.closed:
        yield Problem("early_end", None, "the result of the benchmark was cut off before its end")
    sent, answered, failed = (
        values.get("num_prompts", num_prompts),
        values.get("completed"),
        values.get("failed", 0.0),
    )
    if answered is not None and sent is not None and answered < sent:
        failed = max(failed, sent - answered)
    if failed or answered == 0:
        of = f" of {sent:.0f}" if sent is not None else ""
        detail = f"{failed:.0f}{of} requests failed; the numbers are of the {answered or 0:.0f} others alone"
        yield Problem(FAILED, None, detail)
    elif answered is not None and sent is None:
        yield Problem(
            UNKNOWN, None, f"{answered:.0f} requests were answered; how many were sent is unknown"
        )
    for kind, what in ((CONTRADICTORY, "no numbers are to be had"), ("no_number", "left out")):
        damaged = [
            f"{name} is {text}"
            for name, text in served.damaged.items()
            if (name in RATES | frozenset(COUNTS)) is (kind == CONTRADICTORY)
        ]
        if damaged:
            yield Problem(kind, None, f"{what}: " + ", ".join(damaged))
    if not any(name in RATES or name.endswith("_ms") for name in {**values, **served.damaged}):
        yield Problem("early_end", None, "the result has neither a rate nor a latency")
    for detail in itertools.chain(
        _contradictions(served),
        _in_flight(values, settings),
        _impossible(values),
        _longer_than_all(values),
    ):
        yield Problem(CONTRADICTORY, None, detail)
    yield from _load(values, settings)
    yield from _lengths(values, settings)
    yield from _stream(values)


UNKNOWN, FAILED, CONTRADICTORY = "unknown_failures", "failed_requests", "contradictory_result"
RATES = frozenset(
    {"requests_per_s", "output_tokens_per_s", "total_tokens_per_s", "output_tokens_per_s_per_gpu"}
)
COUNTS = ("num_prompts", "completed", "failed", "duration_s")
"""Results that stay of a broken benchmark: no rate and no latency."""


def answered(log: Log, problems: Iterable[Problem]) -> bool | None:
    """Whether every request was answered and the result is whole; None if it is not
    known how many were sent.
    """
    kinds = {problem.kind for problem in problems}
    if FAILED in kinds or not log.served[-1].closed:
        return False
    if UNKNOWN in kinds or "completed" not in log.results:
        return None
    return True


def counts(log: Log) -> dict[str, float]:
    """The counts of a broken result."""
    return {name: log.results[name] for name in COUNTS if name in log.results}


def stated_settings(log: Log) -> dict[str, Any]:
    """Settings that the last result states of its requests; a rate without a limit is
    ``inf``, as JSON has no such number.
    """
    stated = log.served[-1].settings if log.served else {}
    return {name: _plain(value) for name, value in stated.items()}


def _plain(value: Any) -> Any:
    if not isinstance(value, float):
        return value
    if not math.isfinite(value):
        return "inf"
    return int(value) if value.is_integer() else value


def _contradictions(served: Served) -> Iterator[str]:
    """Rates that are not what they count, divided by the duration or the number of
    GPUs.
    """
    values, duration = served.values, served.values.get("duration_s")
    if duration is None:
        return
    if duration == 0:
        yield f"{values.get('completed', 0):.0f} requests took no time: duration_s is 0"
    tokens = ("total_input_tokens", "total_output_tokens")
    counted = {
        "output_tokens_per_s": tokens[1:],
        "requests_per_s": ("completed",),
        "total_tokens_per_s": tokens,
    }
    for rate, names in counted.items():
        if duration and rate in values and all(name in values for name in names):
            count = sum(values[name] for name in names)
            expected = count / duration
            least = count / (duration + LAST_DIGIT_S)
            most = count / (duration - LAST_DIGIT_S) if duration > LAST_DIGIT_S else math.inf
            room = CONTRADICTION * expected + LAST_DIGIT_S
            if not least - room <= values[rate] <= most + room:
                yield f"{rate} is {values[rate]:.4g}, but {' + '.join(names)} / duration_s is {expected:.4g}"
    of_gpu, num_gpus = values.get("output_tokens_per_s_per_gpu"), served.facts.num_gpus
    together = values.get("output_tokens_per_s")
    if of_gpu is None or num_gpus is None or together is None:
        return
    if abs(of_gpu * num_gpus - together) > CONTRADICTION * together:
        yield f"{of_gpu:.4g} output tokens/s/GPU of {num_gpus} GPUs are not {together:.4g}"


def _in_flight(values: Mapping[str, float], settings: Mapping[str, Any]) -> Iterator[str]:
    """Latencies that the rate contradicts: rate times latency is the mean number of
    requests in flight.
    """
    rate, tokens = values.get("requests_per_s"), values.get("mean_output_tokens")
    slots = _slots(settings)
    latency_ms = values.get("mean_e2el_ms")
    if latency_ms is None and tokens and "mean_ttft_ms" in values and "mean_tpot_ms" in values:
        latency_ms = values["mean_ttft_ms"] + values["mean_tpot_ms"] * (tokens - 1)
    if not rate or not latency_ms or not slots:
        return
    flying = rate * latency_ms / 1000
    full = (
        settings.get("request_rate") in (None, math.inf) and values.get("completed", 0) >= 2 * slots
    )
    if flying > MOST_IN_FLIGHT * slots or (full and flying < LEAST_IN_FLIGHT * slots):
        what = f"{rate:.4g} requests/s with a latency of {latency_ms:.4g} ms are {flying:.3g} requests in flight"
        unit = " (latencies in seconds?)" if flying < slots else ""
        yield f"{what}, and the concurrency is {slots:g}{unit}"


def _slots(settings: Mapping[str, Any]) -> float | None:
    """Requests in flight at most; None if that is unknown or not limited."""
    slots = settings.get("concurrency")
    if isinstance(slots, (int, float)) and 0 < slots < math.inf:
        return slots
    return None


def _impossible(values: Mapping[str, float]) -> Iterator[str]:
    """Numbers that no benchmark has: a part larger than the whole, a percentile below a
    lower one.
    """
    yield from _nothing_took_time(values)
    pairs = [
        ("completed", "num_prompts"),
        ("completed", "total_output_tokens"),
        ("output_tokens_per_s", "total_tokens_per_s"),
        ("mean_ttft_ms", "mean_e2el_ms"),
    ]
    for latency in LATENCIES:
        rising = [f"{statistic}_{latency}_ms" for statistic in RISING]
        pairs += itertools.pairwise([name for name in rising if name in values])
    for less, more in pairs:
        if (
            less in values
            and more in values
            and values[less] > values[more] * (1 + CONTRADICTION) + LAST_DIGIT_S
        ):
            yield f"{less} is {values[less]:.4g}, and {more}, which is at least as large, {values[more]:.4g}"


def _longer_than_all(values: Mapping[str, float]) -> Iterator[str]:
    """Yield an answer that takes longer, in the mean, than the benchmark with all of
    them.
    """
    duration, tokens = values.get("duration_s"), values.get("mean_output_tokens")
    each_ms = values.get("mean_tpot_ms")
    if not duration or not tokens or each_ms is None:
        return
    answer_s = (values.get("mean_ttft_ms", 0.0) + each_ms * (tokens - 1)) / 1000
    if answer_s > duration * (1 + CONTRADICTION) + LAST_DIGIT_S:
        detail = f"an answer takes {answer_s:.4g} s ({tokens:.4g} tokens of {each_ms:.4g} ms)"
        yield f"{detail}, and the whole benchmark {duration:.4g} s"


def _nothing_took_time(values: Mapping[str, float]) -> Iterator[str]:
    """Yield latencies of zero beside answers that took time: the client saw no token
    arrive.
    """
    tokens = values.get("mean_output_tokens", 2.0)
    for statistic in ("mean", "median"):
        names = [f"{statistic}_ttft_ms"]
        if tokens > 1:
            names.append(f"{statistic}_tpot_ms")
        zero = [name for name in names if values.get(name) == 0]
        if zero and any(map(values.get, ("duration_s", "mean_e2el_ms"))):
            yield f"{' and '.join(zero)} are 0, and answers of {tokens:.4g} tokens took time"


def _load(values: Mapping[str, float], settings: Mapping[str, Any]) -> Iterator[Problem]:
    """Whether the server was in a steady state, and what the time to the first token
    has in it.
    """
    slots, sent = _slots(settings), values.get("num_prompts", values.get("completed"))
    if slots is not None and sent is not None and sent <= slots:
        detail = f"{sent:.0f} requests at concurrency {slots:.0f}: the server never works in a steady state"
        yield Problem("no_steady_state", None, detail)
    unlimited = settings.get("request_rate") in (math.inf, "inf", "Infinity")
    if settings.get("offline") or (unlimited and slots is None and settings.get("backend")):
        detail = "all requests are sent at once, so the time to the first token is mostly waiting in the queue"
        yield Problem("queueing_ttft", None, detail)


def _lengths(values: Mapping[str, float], settings: Mapping[str, Any]) -> Iterator[Problem]:
    """Prompts or answers of other lengths than were asked for: clients mean different
    things by a range ratio.
    """
    for side in ("input", "output"):
        mean, asked = values.get(f"mean_{side}_tokens"), settings.get(f"{side}_tokens")
        if not mean or not isinstance(asked, (int, float)) or asked <= 0:
            continue
        if abs(mean / asked - 1) > OTHER_LENGTH:
            ratio = settings.get("range_ratio")
            why = f" (range ratio {ratio:g})" if isinstance(ratio, (int, float)) else ""
            detail = f"the mean {side} has {mean:.4g} tokens, not the {asked:.4g} asked for{why}"
            yield Problem("other_lengths", None, detail)


def _stream(values: Mapping[str, float]) -> Iterator[Problem]:
    tpot = values.get("mean_tpot_ms") or values.get("median_tpot_ms")
    itl = values.get("mean_itl_ms") if values.get("mean_tpot_ms") else values.get("median_itl_ms")
    if tpot and itl and itl > SEVERAL_TOKENS * tpot:
        detail = (
            f"the inter-token latency is {itl / tpot:.1f} times the time per output token: it is a time between chunks "
            "with several tokens (a stream interval, or speculation)"
        )
        yield Problem("chunked_stream", None, detail)
