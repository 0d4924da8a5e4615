"""Metrics + references -> verdict. A run is checked for errors before its speed: a fast wrong run is invalid."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from benchrun.compare.checks import Check, Name, countable, loss_check, speed_check
from benchrun.compare.choice import Choice, choice, choose, usable
from benchrun.compare.conditions import Conditions, Difference, hard_differences
from benchrun.compare.limits import BEYOND_PEAK, Label, beyond_peak, broken, labels
from benchrun.compare.references import Reference, matching
from benchrun.model import Frozen
from benchrun.spec.runspec import RunSpec
from benchrun.vocabulary import Exit

if TYPE_CHECKING:
    from benchrun.metrics.model import Metrics


class Verdict(Frozen):
    """The answer, the entry it rests on, and why."""

    schema_version: Literal[1] = 1
    verdict: Name
    reason: str
    """One sentence."""
    ending: str | None
    runs: int
    checks: tuple[Check, ...]
    differs: tuple[Difference, ...]
    """With ``not_comparable``: the keys that differ from the nearest reference."""
    nearest: Reference | None
    conditions: Conditions
    labels: tuple[Label, ...] = ()
    """What limits the verdict, shown in its first line."""
    chosen_because: Choice | None = None
    """Why the speed was compared with that reference and not another."""
    warmup: int | None = None
    """Rows that were dropped as warm-up because the user said so; None for the usual number."""

    @property
    def exit_code(self) -> Exit:
        """OK and SLOW; any other verdict gives no number to act on, or one that needs a look first."""
        return {"pass": Exit.OK, "slow": Exit.SLOW}.get(self.verdict, Exit.INCONCLUSIVE)

    @property
    def headline(self) -> str:
        """The verdict with what limits it, e.g. ``PASS (proxy: num_layers 4 of 96)``."""
        limits = "; ".join(label.text for label in self.labels)
        return f"{self.verdict.upper()} ({limits})" if limits else self.verdict.upper()


@dataclass(frozen=True)
class RunResult:
    """One run: its measurement, the verdict it was given, and its ending."""

    run_id: str
    spec: RunSpec
    metrics: Metrics | None
    verdict: Verdict | None
    ending: str | None = None
    """None where it is not recorded."""

    @property
    def numbers(self) -> Metrics | None:
        """The metrics; None for an invalid, broken or incomplete run: its speed is no measurement."""
        metrics = self.metrics
        if metrics is None or (self.verdict and self.verdict.verdict == "invalid_run"):
            return None
        broken = self.ending not in (None, "completed") or metrics.complete is False or metrics.fatal is not None
        return None if broken else metrics

    @property
    def judgement(self) -> str:
        """The verdict, else the ending of a run that failed, else "not judged"."""
        if self.verdict:
            return self.verdict.verdict
        return self.ending if self.ending not in (None, "completed") else "not judged"


def judge(
    own: Conditions,
    metrics: Sequence[Metrics],
    references: Sequence[Reference],
    *,
    ending: str | None = None,
    by_name: bool = False,
) -> Verdict:
    """Judge one run, or the repeats of one.

    ``ending`` is how the job ended, where a job was launched. ``by_name``: the user named the one reference.
    """
    case = _Case(own, metrics, references, ending)
    if why := broken(metrics, ending):
        return case.verdict("invalid_run", why)
    comparable = matching(own, references)
    fitting = countable(metrics, comparable, own)
    loss = loss_check(own, metrics, comparable)
    beyond = next((detail for run in metrics if (detail := beyond_peak(run))), None)
    best = None if beyond else choose(fitting, own)
    speed = speed_check(best, own, metrics) if best else None
    checks = tuple(check for check in (speed, loss) if check)
    if loss and loss.verdict != "pass":
        reason = f"the final loss is {loss.value:.4f}, not {loss.reference.value:.4f}: this run computed something else"
        return case.verdict("invalid_run", reason, checks=checks)
    if beyond:
        return _incredible(case, beyond, checks)
    if speed:
        reason = _speed_reason(speed, len(metrics)) + _as_fast_as(speed, own, metrics, fitting)
        because = choice(speed.reference, fitting, own, by_name=by_name)
        return case.verdict(speed.verdict, reason, checks=checks, chosen_because=because)
    if loss:
        reason = f"the final loss agrees; no speed is published for {own.recipe} on {own.num_gpus} x {own.gpu}"
        return case.verdict("pass", reason, checks=checks)
    return _without_reference(case)


class _Case(NamedTuple):
    """The runs to judge and what they are compared with."""

    own: Conditions
    metrics: Sequence[Metrics]
    references: Sequence[Reference]
    ending: str | None

    def verdict(self, name: Name, reason: str, *, checks: tuple[Check, ...] = (), **more: Any) -> Verdict:
        """The verdict ``name``; ``more`` are further fields of it."""
        return Verdict(
            verdict=name,
            reason=reason + _remarks(self.metrics),
            ending=self.ending,
            runs=len(self.metrics),
            checks=checks,
            conditions=self.own,
            labels=labels(self.own, self.metrics, checks),
            warmup=self.metrics[0].warmup if self.metrics else None,
            **{"differs": (), "nearest": None, **more},
        )


def _incredible(case: _Case, beyond: str, checks: tuple[Check, ...]) -> Verdict:
    """Verdict on steps faster than the GPU's peak; a reference, where there is one, hints at what may be wrong."""
    reason = f"not credible, beyond the GPU's peak: {beyond}"
    if reference := choose(matching(case.own, case.references), case.own):
        return case.verdict("faster_than_expected", reason, checks=checks, nearest=reference)
    other = _without_reference(case)
    if other.differs:
        # A condition that is not what was run, a sequence twice as long, makes any speed impossible.
        return other.model_copy(update={"reason": f"{other.reason}; {reason}", "checks": checks})
    return case.verdict("invalid_run", f"{BEYOND_PEAK}: {beyond}", checks=checks)


def _without_reference(case: _Case) -> Verdict:
    """Verdict where no reference agrees: what differs from the nearest one."""
    own = case.own
    same = [e for e in case.references if e.key.recipe == own.recipe and e.key.gpu == own.gpu and usable(e)]
    if not same:
        return case.verdict("no_reference", f"no published number for {own.recipe} on {own.gpu}")
    # Ties go to the one at our scale: a person can change a batch more easily than a cluster.
    nearest = min(
        same, key=lambda e: (len(hard_differences(e.key, own)), e.key.num_gpus != own.num_gpus, bool(e.flags))
    )
    differs = hard_differences(nearest.key, own)
    named = [f"{d.key}: reference {_stated(d.theirs)}, this run {_stated(d.ours)}" for d in differs]
    reason = "; ".join(named) or f"the reference is in {nearest.unit}, in which this run has no value"
    return case.verdict("not_comparable", reason, differs=differs, nearest=nearest)


def _stated(value: object) -> str:
    return "not stated" if value is None else str(value)


def _speed_reason(check: Check, runs: int) -> str:
    percent = 100 * (check.ratio - 1)
    relation = f"{abs(percent):.1f} % {'faster' if percent >= 0 else 'slower'} than the reference"
    if check.verdict == "inconclusive":
        if check.high is None:
            return f"{relation}, or better: only the mean over the whole run is known, with start-up in it"
        if check.low == check.high:
            return f"{relation}, but a single step was timed: run more steps"
        if runs > 1:  # more of them would lie as far apart
            return f"{relation}, but the {runs} runs lie on both sides of the edge of what passes: why do they differ?"
        return f"{relation}, but the steps vary too much to tell: launch it with --repeats 3, or take more steps"
    limit = f"up to {100 * (1 - check.band[0]):.0f} % slower or {100 * (check.band[1] - 1):.0f} % faster passes"
    return f"{relation} ({limit})"


def _as_fast_as(speed: Check, own: Conditions, metrics: Sequence[Metrics], fitting: Sequence[Reference]) -> str:
    """The release or variant that a slow run is as fast as, as a clause; empty where there is none."""
    if speed.verdict != "slow":
        return ""
    same = choose([e for e in fitting if speed_check(e, own, metrics).verdict == "pass"], own)
    if same is None:
        return ""
    by = ", ".join(filter(None, (same.key.framework_version or same.key.image, same.key.variant)))
    published = f"published with {by}" if by else f"published in {same.source.date}"
    return f"; it reaches what {same.source.who} {published} (--reference {same.id})"


def _remarks(metrics: Sequence[Metrics]) -> str:
    """Remarks on a throttled GPU or a loss that rose: the number stays comparable."""
    throttled = [fault for run in metrics if run.telemetry and (fault := run.telemetry.fault)]
    rose = [sentence for run in metrics if (sentence := run.loss_rose)]
    runs = len(metrics)
    return "".join(
        f"; {sentences[0]}" + (f", in {len(sentences)} of {runs} runs" if runs > 1 else "")
        for sentences in (throttled, rose)
        if sentences
    )
