"""Every metric, once. An entry here appears in JSON, in every table, as a reference and
in plots without more code.

To add one, write the function that reads its value from a measurement; its docstring
says how the value is computed.
"""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from benchrun import extensions
from benchrun.errors import UserError
from benchrun.vocabulary import Better

from .metric import Basis, Metric, Read

if TYPE_CHECKING:
    from .model import Measurement


METRICS: dict[str, Metric] = {}


def register(metric: Metric) -> None:
    """Add one entry. ValueError for a name or key that is taken."""
    if any(metric.name == other.name or metric.key == other.key for other in METRICS.values()):
        raise ValueError(f"metric {metric.name} is registered already")
    METRICS[metric.name] = metric


def metric(name: str) -> Metric:
    """The entry called ``name``. UserError lists the names that are registered."""
    if name not in METRICS:
        raise UserError(f"no metric is called '{name}'", hint=f"legal: {', '.join(METRICS)}")
    return METRICS[name]


def tabled(*, served: bool = False) -> Iterator[Metric]:
    """The metrics that runs have a column of, in the order of registration; with those
    of servers if ``served``.
    """
    return (entry for entry in METRICS.values() if entry.tabled and (served or not entry.served))


def entry(
    name: str, unit: str, better: Better, *shown: Any, **flags: Any
) -> Callable[[Read], Read]:
    """Register the function below as metric ``name``; ``shown`` and ``flags`` are
    further fields of `Metric`.
    """

    def add(read: Read) -> Read:
        register(Metric(name, unit, better, read, *shown, **flags))
        return read

    return add


@entry("step_time_s", "s", "lower", "step time s")
def _step_time(run: "Measurement", _: Basis) -> float | None:
    """Median time of a step over the window, without the warm-up."""
    if run.step_time_s:
        return run.step_time_s.median
    return None


@entry("tokens_per_s_per_gpu", "tokens/s/GPU", "higher", "tokens/s/GPU", ",.0f")
def _rate(run: "Measurement", _: Basis) -> float | None:
    """Median over the window of tokens per step / step time / GPUs."""
    return run.tokens_per_s_per_gpu.median


@entry("samples_per_s", "sequences/s", "higher", tabled=False)
def _samples(run: "Measurement", basis: Basis) -> float | None:
    """Sequences per step / median step time, over all GPUs."""
    if run.step_time_s and basis.gbs:
        return basis.gbs / run.step_time_s.median
    return None


@entry(
    "tflops_per_gpu",
    "TFLOPS/GPU",
    "higher",
    "TFLOPS/GPU",
    ".0f",
    "",
    "tflops_per_gpu_causal",
    counts_flops=True,
)
def _tflops(run: "Measurement", basis: Basis) -> float | None:
    """Tokens per second and GPU x FLOPs per token, causal unless a reference counts all
    scores.
    """
    value: float | None = getattr(run.tflops_per_gpu, basis.convention, None)
    return value


@entry("mfu_percent", "% MFU", "higher", "MFU", ".1f", " %", "mfu_causal_pct", counts_flops=True)
def _mfu_percent(run: "Measurement", basis: Basis) -> float | None:
    """TFLOPS per GPU / dense peak of the run's precision; none for a GPU without a row
    in the table.
    """
    if basis.peak_tflops is None:
        if run.mfu:
            return 100 * float(getattr(run.mfu[0], basis.convention))
        return None
    tflops = _tflops(run, basis)
    if tflops is None:
        return None
    return tflops / (basis.peak_tflops / 100)


@entry("tokens_per_joule", "tokens/J", "higher", "tokens/J", ".3g", comparable=False)
def _energy(run: "Measurement", _: Basis) -> float | None:
    """Tokens per second and GPU / mean power of a GPU over the measured steps."""
    if run.telemetry:
        return run.telemetry.tokens_per_joule
    return None


@entry("rank_spread_percent", "% of step", "lower", "slowest rank", ".1f", " %", comparable=False)
def _rank_spread(run: "Measurement", _: Basis) -> float | None:
    """Time that the slowest rank computes longer than the median of the others of its
    stage / step time.
    """
    if run.ranks and run.ranks.slowest:
        return run.ranks.slowest.behind_percent
    return None


@entry("peak_memory_gib", "GiB", "lower", "memory", ".3g", " GiB", tabled=False, comparable=False)
def _memory(run: "Measurement", _: Basis) -> float | None:
    """Largest memory of one rank: allocated on its GPU, or resident on a CPU."""
    return run.peak_memory_gib


@entry("final_loss", "nats", "equal", tabled=False, comparable=False)
def _final_loss(run: "Measurement", _: Basis) -> float | None:
    """Loss of the last step."""
    return run.final_loss


@entry("final_reward", "reward", "higher", tabled=False, comparable=False)
def _final_reward(run: "Measurement", _: Basis) -> float | None:
    """Mean reward of the last tenth of the steps."""
    return run.final_reward


@entry("fsdp_over_3d", "x", "higher", tabled=False, comparable=False)
def _of_two_runs(*_: object) -> None:
    """Tokens per second and GPU with FSDP / the same with tensor and pipeline
    parallelism, of two runs.
    """


@entry("trtllm_over_nemo", "x", "higher", tabled=False, comparable=False)
def _of_two_engines(*_: object) -> None:
    """Tokens per second and GPU with TensorRT-LLM's generation / the same with NeMo's
    own, of two runs.
    """


@entry("vllm_over_transformers", "x", "higher", tabled=False, comparable=False)
def _of_two_engines_of_trl(*_: object) -> None:
    """Tokens per second and GPU with vLLM's generation / the same with transformers'
    own, of two runs.
    """


def _quantity(name: str, how: str) -> Read:
    """The function that reads the median of a quantity of the steps."""

    def read(run: "Measurement", _: Basis) -> float | None:
        if name in run.quantities:
            return run.quantities[name].median
        return None

    read.__doc__ = f"Median over the window of {how}."
    return read


STAGES = {
    "generation": "making the responses; of an asynchronous run only the part that training waits for",
    "training": "updating the policy, and the critic where the framework's timer has it",
    "logprob": "the probabilities of the responses under the policy and the reference, where the log has both",
    "weight_sync": "giving the new weights to the engine that generates, as far as the framework's timer counts it",
}
"""Stages of a step of post-training, and what each does. Some are parts of others: they
are never added up.
"""
for _stage, _what in STAGES.items():
    register(
        Metric(
            f"{_stage}_s",
            "s",
            "lower",
            _quantity(f"{_stage}_s", f"the seconds of {_what}"),
            tabled=False,
        )
    )
for _stage in ("generation", "training", "logprob"):
    _how = "the step's tokens, prompts and responses, per second of this stage and per GPU that works in it"
    _name = f"{_stage}_tokens_per_s_per_gpu"
    register(
        Metric(_name, "tokens/s/GPU", "higher", _quantity(_name, _how), format=",.0f", tabled=False)
    )
register(
    Metric(
        "reward",
        "reward",
        "higher",
        _quantity("reward", "the mean reward"),
        tabled=False,
        comparable=False,
    )
)


def _served(
    name: str, unit: str, better: Better, title: str, result: str = "", **flags: Any
) -> None:
    """Register the ``result`` of a benchmark of a server, by default the one called
    ``name``.
    """

    def read(run: "Measurement", _: Basis) -> float | None:
        if run.fatal:
            return None
        return run.results.get(result or name)

    statistic, _, what = name.partition("_")
    read.__doc__ = f"{title}, as the client of the benchmark computes it" + (
        f": its {statistic} over the requests." if what.endswith("_ms") else "."
    )
    register(Metric(name, unit, better, read, title, served=True, **flags))


@entry(
    "output_tokens_per_s_per_gpu",
    "output tokens/s/GPU",
    "higher",
    "output tokens/s/GPU",
    ",.0f",
    served=True,
)
def _output_rate(run: "Measurement", _: Basis) -> float | None:
    """Generated tokens of all answered requests / duration of the benchmark / GPUs."""
    return _per_gpu(run, "output_tokens_per_s")


@entry(
    "total_tokens_per_s_per_gpu",
    "tokens/s/GPU",
    "higher",
    "in+out tokens/s/GPU",
    ",.0f",
    served=True,
)
def _total_rate(run: "Measurement", _: Basis) -> float | None:
    """Prompt and generated tokens of all answered requests / duration of the benchmark
    / GPUs.
    """
    return _per_gpu(run, "total_tokens_per_s")


def _per_gpu(run: "Measurement", name: str) -> float | None:
    rate, num_gpus = run.results.get(name), run.num_gpus
    if run.fatal:
        return None
    if rate is not None and num_gpus:
        return rate / num_gpus
    return run.results.get(f"{name}_per_gpu")


_served(
    "output_tokens_per_s_per_user",
    "tokens/s/user",
    "higher",
    "output tokens/s/user",
    format=".3g",
    comparable=False,
)
_served(
    *("answered_requests_per_s", "requests/s", "higher", "requests/s", "requests_per_s"),
    format=".3g",
    comparable=False,
)
_served(
    "goodput_requests_per_s",
    "requests/s",
    "higher",
    "goodput requests/s",
    format=".3g",
    comparable=False,
)
for _latency in ("ttft", "tpot", "itl", "e2el"):
    for _statistic in ("mean", "median", "p99"):
        _title = f"{_statistic} {_latency.upper()} ms"
        _served(
            f"{_statistic}_{_latency}_ms", "ms", "lower", _title, format=".4g", comparable=False
        )

for _, _added in extensions.added("metrics"):
    register(_added)
