"""The documents of a measurement: `Metrics` of a launched run (metrics.json), `Summary`
of a log (``parse --json``).
"""

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import (
    Field,
    SerializerFunctionWrapHandler,
    computed_field,
    model_serializer,
    model_validator,
)

from benchrun.model import Frozen
from benchrun.rundir.artifacts import Breakdown

from .bound import Bound
from .metric import OURS
from .ranks import RankSpread
from .registry import tabled
from .statistics import Interval, Spread
from .steadiness import Steadiness
from .telemetry import Telemetry

SAMPLES = "samples_per_second"
"""The quantity of a step that is its printed rate of samples, of all ranks."""
ROSE = 1.1
"""A run diverged if its final loss is above this multiple of the first."""


class MeanMedian(Frozen):
    """Mean and median of one quantity over the window; None if the log does not give
    it.
    """

    mean: float | None = None
    median: float | None = None


class ProblemEntry(Frozen):
    """One problem found in the log."""

    kind: str
    line: int | None
    detail: str
    host: str | None = None
    rank: int | None = None


class Window(Frozen):
    """The rows that the statistics cover."""

    first_step: int
    last_step: int
    rows: int
    """Rows of the window, without impossible rows and rows without a time."""


class OtherWindows(Frozen):
    """Mean step time, in s, over the windows that others use; None if the log has no
    such rows.
    """

    last_10_rows: float | None = None
    """Mean of the last ten rows, as many scripts report it."""
    steps_35_to_44: float | None = None
    """Mean over the window of NVIDIA's DGX Cloud Benchmarking Recipes, whose steps
    count from 0.
    """


class Conventions(Frozen):
    """One quantity under both FLOPs conventions."""

    full: float
    causal: float


class Mfu(Conventions):
    """Model FLOPs utilisation: fractions of a named peak, not percent."""

    divisor: str
    """GPU, precision and kind of the peak, e.g. ``H100 fp8 dense``."""
    peak_tflops: float


class Measurement(Frozen):
    """Numbers that both documents hold. A number is null if the log does not give it."""

    schema_version: Literal[1] = 1
    framework: str
    gpu: str | None
    precision: str | None
    num_gpus: int | None
    derived: dict[str, str] = Field(default_factory=dict)
    """Condition that nobody states -> what its value follows from: a guess."""
    complete: bool | None
    """The last planned step was seen; None if no number of planned steps is stated."""
    planned_steps: int | None
    profiled_after: int | None = None
    """The last measured step of a run that was profiled after it; the steps that follow
    are left out.
    """
    num_steps: int
    """Distinct step rows of the log."""
    steps_timed: int = 0
    """Steps that the rows stand for, the warm-up's included."""
    skipped_updates: int = 0
    """Steps of the window without an update of the weights."""
    skipped_share: float = 0.0
    """Steps without an update over all steps, 0 to 1."""
    warmup_rows_dropped: int
    only_average: bool = False
    """The step time is a mean over the whole run, start-up included."""
    whole_seconds: bool = False
    """Step times are known to a second only: the mean says more than the median."""
    window: Window | None = None
    step_time_s: Spread | None = None
    step_time_interval_s: Interval | None = None
    """95 % confidence interval of the median; for 2 to 5 rows their range, at its own
    level.
    """
    steadiness: Steadiness | None = None
    other_windows: OtherWindows = OtherWindows()
    tokens_per_s_per_gpu: MeanMedian = MeanMedian()
    tflops_per_gpu: Conventions | None = None
    """TFLOPS from the median tokens/s and our own count of FLOPs."""
    tflops_per_gpu_reported: MeanMedian
    reported_convention: str | None
    """How the framework counted its FLOPs, found from its own TFLOPS and tokens/s."""
    mfu: tuple[Mfu, ...] = ()
    """MFU over the dense peak of the run's precision (BF16 if none is stated); empty
    without a listed peak.
    """
    bf16_peak_ratio: Conventions | None = None
    """TFLOPS over the dense BF16 peak, of a run in another precision; it may be above
    1.
    """
    mfu_reported: MeanMedian = MeanMedian()
    """MFU as the framework prints it, a fraction of a peak that it chose."""
    first_loss: float | None
    final_loss: float | None
    peak_memory_gib: float | None = None
    """Largest memory of one rank, if its log states it: allocated on a GPU, resident on
    a CPU.
    """
    results: dict[str, float] = Field(default_factory=dict)
    """Named results that the log states beside its steps."""
    first_reward: float | None = None
    """Mean reward of the first tenth of the steps, of a post-training."""
    final_reward: float | None = None
    """Mean reward of the last tenth of the steps."""
    quantities: dict[str, Spread] = Field(default_factory=dict)
    """Other quantities of the steps over the window: seconds and tokens/s/GPU of the
    stages of a step, rewards.
    """
    settings: dict[str, Any] = Field(default_factory=dict)
    """Settings of the requests of a benchmark of a server, as the log states them:
    concurrency, rate, lengths.
    """
    problems: tuple[ProblemEntry, ...]
    fatal: ProblemEntry | None = None
    """The first problem that makes the numbers invalid."""
    telemetry: Telemetry | None = None
    """State of the GPUs in the window; None if nothing was sampled."""
    ranks: RankSpread | None = None
    """Compute time of each rank; None if it was not measured."""

    @computed_field  # type: ignore[prop-decorator]
    @property
    def metrics(self) -> dict[str, float | None]:
        """Every metric of the registry, by name: the value that is compared, tabled and
        plotted.
        """
        values = {entry.key: (entry, entry.read(self, OURS)) for entry in tabled(served=True)}
        found = {}
        for key, (entry, value) in values.items():
            if value is not None or not entry.served:
                found[key] = value
        return found

    @model_validator(mode="before")
    @classmethod
    def _without_computed(cls, document: Any) -> Any:
        """The fields of a written document: ``metrics`` follows from them."""
        if isinstance(document, Mapping):
            return {name: value for name, value in document.items() if name != "metrics"}
        return document


class Metrics(Measurement):
    """Measurement of one launched run."""

    warmup: int | None = None
    """Rows to drop as warm-up; None for the default rule."""
    bound: Bound | None = None
    """The step beside the ceilings that the machine reached alone; None if they were
    not measured.
    """
    breakdown: Breakdown | None = None
    """Breakdown of a step's time; None if none was profiled."""

    @property
    def loss_rose(self) -> str | None:
        """A sentence about a run that diverged: its speed counts, but experts and
        clocks may have done other work.

        None of a post-training, whose loss does not fall as it learns.
        """
        if self.final_reward is not None:
            return None
        first, final = self.first_loss, self.final_loss
        if not first or final is None or final - first <= (ROSE - 1) * abs(first):
            return None
        return f"the loss rose from {self.first_loss:.4g} to {self.final_loss:.4g}"


class Summary(Measurement):
    """A log in numbers."""

    file: str
    segments: int
    """Uninterrupted parts: one more than restarts."""
    first_step: int | None
    last_step: int | None
    run_time_s: float | None
    """Seconds of the whole training, if the framework prints them."""
    framework_version: str | None
    task: str | None = None
    """``lora`` if only adapters are trained; null if the log does not say."""
    unknown_options: list[str] = Field(default_factory=list)
    """Options that change the work of a step and are not understood, as ``name value``:
    no FLOPs are known.
    """
    seq_length: int | None
    global_batch_size: int | None
    micro_batch_size: int | None
    layout: dict[str, int | None]
    """How the model was split: tp, pp, cp, vp, ep."""
    model: dict[str, Any] | None
    """The dimensions, if the log states them all."""
    post_training: bool = False
    """A step makes responses and trains on them: neither batch nor model would give
    rates.
    """
    stated_peak: float | None = None
    """The GPU's peak in TFLOPS that the caller stated, of a GPU that is not listed."""

    @model_serializer(mode="wrap")
    def _contract_first(self, fields: SerializerFunctionWrapHandler) -> dict[str, Any]:
        document: dict[str, Any] = fields(self)
        return {name: document[name] for name in CONTRACT} | document


CONTRACT = (
    "schema_version",
    "file",
    "framework",
    "segments",
    "first_step",
    "last_step",
    "planned_steps",
    "num_steps",
    "complete",
    "warmup_rows_dropped",
    "step_time_s",
    "tokens_per_s_per_gpu",
    "tflops_per_gpu_reported",
    "seq_length",
    "global_batch_size",
    "num_gpus",
    "problems",
)
"""Keys that ``parse --json`` begins with."""
