"""Prediction of a step: of a point, over numbers of GPUs, of a table of rows; on a
site's own runs."""

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from benchrun.errors import UserError
from benchrun.jobs.endings import recorded_name
from benchrun.judge.checks import broken_run
from benchrun.judge.choice import choose, of_point, rate
from benchrun.judge.conditions import conditions
from benchrun.judge.measured import load_measured, measured_references
from benchrun.judge.references import Reference, load_references, matching
from benchrun.measure.model import Metrics
from benchrun.measure.scaling import CurvePoint, Scaling
from benchrun.memory import ESTIMATE_ERROR, estimate, impossible, warning
from benchrun.model.flops import flops_per_token
from benchrun.rundir import artifacts
from benchrun.rundir.find import open_run
from benchrun.runspec.spec import RunSpec, TrainingSpec
from benchrun.show.curve import CurveView
from benchrun.show.runs import proxy
from benchrun.usecases.scaling import curve_title

from . import prediction as model
from . import runs, site
from .budget import NOT_STATED, Budget
from .prediction import Calibration, Prediction
from .residuals import LEVEL, untested
from .workload import Workload

WIDE = 25
"""Percent by which a measurement may be slower, from which the interval says little."""
SITE = "site"
"""The source of runs that ``calibrated`` reads, and of predictions that rest on them.
"""


@dataclass(frozen=True)
class Predicted:
    """A prediction and the run it is for."""

    spec: TrainingSpec
    prediction: Prediction
    budget: Budget = NOT_STATED

    @functools.cached_property
    def own_number(self) -> Reference | None:
        """The number of this point and framework: published, else kept."""
        own = conditions(self.spec)
        return of_point(own, load_references()) or of_point(own, _kept())

    @functools.cached_property
    def numbers(self) -> tuple[Reference, ...]:
        """`own_number`; without it what was published with other software or in another
        layout, the nearest of each software, the newest first."""
        if self.own_number is not None:
            return (self.own_number,)
        own = conditions(self.spec)
        entries: dict[str, list[Reference]] = {}
        for entry in matching(own, load_references()):
            entries.setdefault(entry.software, []).append(entry)
        found = []
        for each in entries.values():
            best = choose(each, own)
            if best is not None and rate(best):
                found.append(best)
        return tuple(sorted(found, key=lambda entry: entry.source.date, reverse=True))

    @property
    def wide(self) -> bool:
        """Whether the interval is too wide to choose by."""
        return self.prediction.high > (1 + WIDE / 100) * self.prediction.median

    def beside(self) -> list[str]:
        """`numbers` in words."""
        one = self.prediction
        lines = []
        for number in self.numbers:
            found = rate(number)
            step_s = one.load.tokens_per_s_per_gpu / found
            kind = "measured" if "measured" in number.flags else "published"
            words = f"{kind} {found:,.0f} tokens/s/GPU ({step_s:.4g} s) with {number.software}"
            if not one.low <= step_s <= one.high:
                words += ", outside the interval"
            lines.append(f"{words}: {number.source.who} {number.source.date}, {number.id}")
        return lines

    @property
    def title(self) -> str:
        """Title of the prediction: the workload, with what a proxy has less of, the
        framework and the layout.
        """
        spec = self.spec
        what = f"{proxy(spec)}, {spec.task}, {spec.precision}, {spec.gpu}, {spec.framework}"
        parts = []
        for name, degree in spec.layout.degrees:
            if name == "fsdp" and degree == spec.dp * spec.layout.cp:
                parts.append("fsdp over all ranks")  # true for any number of GPUs
            elif degree > 1:
                parts.append(f"{name} {degree}")
        return f"{what}: {', '.join([*parts, f'micro-batch {spec.mbs}'])}"

    @property
    def warnings(self) -> tuple[str, ...]:
        """Reason why the run may not fit into memory."""
        return tuple(filter(None, [warning(self.spec)]))

    @property
    def limit(self) -> str | None:
        """Why measurements may lie outside the interval more often than it says; None if
        it was tested on workloads like this one."""
        if self.prediction.calibration != model.PUBLISHED:
            return None
        found = []
        reason = untested(self.prediction.load)
        if reason:
            found.append(f"outside of what the interval was tested on: {reason}")
        if self.spec.model.moe and runs.published(self.spec) is None:
            found.append(
                "where no number was published, experts lie outside more often than 1 in 10"
            )
        return "; ".join(found) or None

    def document(self) -> dict[str, Any]:
        """Document of ``predict --json``: seconds, tokens/s, MFU by convention, GiB."""
        one = self.prediction
        load = self.prediction.load
        spec = self.spec
        flops = flops_per_token(spec.model, spec.seq_length, task=spec.task)
        peak = load.gpu.peak_tflops(spec.precision)
        rate = one.tokens_per_s_per_gpu
        shares = {}
        if peak is not None:
            for name in ("full", "causal"):
                shares[name] = getattr(flops, name) * rate / (peak * 1e12)
        memory = estimate(spec).total
        numbers = self._number_documents()
        step_s = {"median": one.median, "low": one.low, "high": one.high}
        tokens = load.tokens_per_s_per_gpu * load.num_gpus
        return {
            "schema_version": 1,
            "step_time_s": step_s,
            "interval": LEVEL,
            "parts_s": dict(one.parts),
            "tokens_per_s_per_gpu": rate,
            "mfu": shares,
            "memory_gib": memory,
            "memory_interval_gib": {
                "low": memory / (1 + ESTIMATE_ERROR),
                "high": memory * (1 + ESTIMATE_ERROR),
            },
            "calibration": one.calibration,
            "published": next(iter(numbers), None),
            "published_others": numbers[1:],
            "warnings": list(filter(None, [self.limit, *self.warnings])),
            "gpu": spec.gpu,
            "precision": spec.precision,
            "num_gpus": load.num_gpus,
            "gbs": load.gbs,
            "framework": spec.framework,
            "reduced": [str(each) for each in spec.reduced],
            **self.budget.document(load.num_gpus, spec.planned_steps, tokens, step_s),
        }

    def _number_documents(self) -> list[dict[str, Any]]:
        documents = []
        for number in self.numbers:
            found = rate(number)
            document = {
                "id": number.id,
                "framework": number.key.framework,
                "tokens_per_s_per_gpu": found,
                "step_time_s": self.prediction.load.tokens_per_s_per_gpu / found,
                "source": number.cited,
            }
            documents.append(document)
        return documents


@dataclass(frozen=True)
class PredictedCurve:
    """A run on several numbers of GPUs."""

    scaling: Scaling
    points: tuple[Predicted, ...]
    left_out: Mapping[int, str]
    """Reason why a number of GPUs has no prediction."""

    @property
    def view(self) -> CurveView:
        """The curve with its efficiency, and where it breaks."""
        points = []
        for each in self.points:
            one = each.prediction
            load = one.load
            points.append(
                CurvePoint(load.num_gpus, load.gbs, one.median, one.parts, one.low, one.high)
            )
        spec = self.points[0].spec
        return CurveView(curve_title(spec), self.scaling, spec.seq_length, predicted=tuple(points))

    def document(self) -> dict[str, Any]:
        """Document of ``predict --json`` for several numbers of GPUs."""
        view = self.view.document()
        points = []
        for each, point in zip(self.points, view["points"], strict=True):
            points.append(each.document() | {"efficiency": point["efficiency"]})
        left_out = []
        for number, reason in self.left_out.items():
            left_out.append({"num_gpus": number, "reason": reason})
        return {
            "schema_version": 1,
            "scaling": self.scaling,
            "points": points,
            "left_out": left_out,
            "break": view["break"],
        }


def predicted(
    spec: RunSpec, calibration: Calibration | None = None, budget: Budget = NOT_STATED
) -> Predicted:
    """The step of one run. UserError for a workload without steps, and for a GPU whose
    speed is not known."""
    one = _one(_training(spec), _load(spec, calibration), calibration)
    return Predicted(_training(spec), one, budget)


@functools.cache
def _kept() -> tuple[Reference, ...]:
    return measured_references(load_measured())


def _one(spec: TrainingSpec, load: Workload, calibration: Calibration | None) -> Prediction:
    """The prediction of ``load``; without a site's runs its interval has the number that
    was published for exactly this point."""
    one = model.predict(load, calibration)
    number = runs.published(spec)
    if number is None or calibration is not None:
        return one
    step_s = load.tokens_per_s_per_gpu / rate(number)
    return replace(one, low=min(one.low, step_s), high=max(one.high, step_s))


def predicted_curve(
    spec: RunSpec,
    num_gpus: Sequence[int],
    scaling: Scaling,
    calibration: Calibration | None = None,
    budget: Budget = NOT_STATED,
) -> PredictedCurve:
    """The step of a run on several numbers of GPUs, in its layout. UserError if its
    layout, batch or memory allows none of them."""
    start = _load(spec, calibration)
    points = []
    errors = {}
    for number in num_gpus:
        try:
            load = model.scaled(start, number, scaling)
            sized = _fitting(_training(spec), load)
        except UserError as error:
            errors[number] = error
            continue
        points.append(Predicted(sized, _one(sized, load, calibration), budget))
    if not points:
        raise next(iter(errors.values()))
    return PredictedCurve(scaling, tuple(points), {n: e.message for n, e in errors.items()})


def _fitting(spec: TrainingSpec, load: Workload) -> TrainingSpec:
    """``spec`` in the size of ``load``. UserError if its memory cannot suffice."""
    sized = spec.resized(num_gpus=load.num_gpus, gbs=int(load.gbs), layout=load.layout)
    reason = impossible(sized)
    if reason:
        raise UserError(f"on {load.num_gpus} GPUs {reason}")
    return sized


def predicted_step(spec: RunSpec) -> Prediction | None:
    """The predicted step of a run; None if nothing can be predicted."""
    try:
        return _one(_training(spec), _load(spec, None), None)
    except UserError:
        return None


def calibrated(names: Sequence[str]) -> tuple[Calibration, list[str]]:
    """A calibration from runs, by name or path, and what it changed. UserError for a
    run without a step time."""
    measured = []
    for name in names:
        run = open_run(name)
        reason = broken_run(run.document(artifacts.METRICS, Metrics), recorded_name(run))
        if reason:
            raise UserError(
                f"{run.run_id} gives no number: {reason}", hint=f"benchrun compare {run.run_id}"
            )
        measured.append(runs.read(run.path, SITE))
    return site.calibrated(measured)


def _training(spec: RunSpec) -> TrainingSpec:
    """``spec`` as a training. UserError for another workload."""
    if not isinstance(spec, TrainingSpec):
        raise UserError(
            f"{spec.recipe} is no training: only a training has a step to predict",
            hint="benchrun predict takes one point of a server or of GRPO",
        )
    return spec


def _load(spec: RunSpec, calibration: Calibration | None) -> Workload:
    """The workload of a run; with a calibration it is akin to the site's own runs."""
    return runs.workload_of_run(_training(spec), None if calibration is None else SITE)
