"""The whole way, joined: the one module that knows every room. The command line calls nothing deeper."""

from __future__ import annotations

import contextlib
import json
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from benchrun.compare import Conditions, Verdict, conditions, judge, references_for
from benchrun.compare.conditions import shape_of
from benchrun.compare.measured import copies, load_measured, measured_references
from benchrun.errors import UserError
from benchrun.frameworks.logs import DIALECTS, Tail, ended_at, parse_log
from benchrun.launch.endings import End, Ending, classify, recorded
from benchrun.launch.env import described
from benchrun.launch.keep import kept_files, kept_name, write_kept
from benchrun.launch.launcher import Observation, backoff, done_of, launch, observe
from benchrun.launch.rundir import ENDING, STDOUT, RunDir
from benchrun.metrics.bound import Bound, Ceilings, bound
from benchrun.metrics.breakdown import Breakdown
from benchrun.metrics.known import Known, as_logged, known
from benchrun.metrics.measure import Metrics, measure
from benchrun.metrics.summary import Summary
from benchrun.metrics.telemetry import Sampled, sampled
from benchrun.model import ModelShape
from benchrun.parse import Log, Step
from benchrun.recipe import catalogue
from benchrun.recipe.proxy import dimensions, reductions
from benchrun.recipe.resolve import resolve
from benchrun.recipe.select import Request
from benchrun.render import render
from benchrun.report.runs import RunResult
from benchrun.report.steps import lines
from benchrun.spec.runspec import RunSpec

D = TypeVar("D", bound=BaseModel)

Progress = Callable[[Observation, list[Step]], None]


def resolve_all(request: Request) -> list[RunSpec]:
    """The runs of a point, or of a suite of that name."""
    if not catalogue.is_suite(request.recipe):
        return [resolve(request)]
    suite, document = catalogue.suite_file(request.recipe)
    specs = []
    for index, run in enumerate(suite.runs):
        overrides = tuple(f"{key}={json.dumps(value)}" for key, value in run.set.items())
        each = Request(
            run.recipe,
            request.gpu or run.gpu,
            request.precision or run.precision,
            request.num_gpus or run.num_gpus,
            request.framework or run.framework,
            request.cluster,
            (*overrides, *request.overrides),
        )
        try:
            specs.append(resolve(each))
        except UserError as error:
            which = f"run {index + 1} of {len(suite.runs)} ({run.recipe})"
            message = f"{which}: {error.where}: {error.message}" if error.where else f"{which}: {error.message}"
            raise UserError(message, hint=error.hint, where=document.where(("runs", index))) from None
    return specs


def start(spec: RunSpec, root: Path) -> RunDir:
    """Render and launch one run."""
    return launch(spec, render(spec), root)


def wait(run: RunDir, progress: Progress) -> Observation:
    """Poll until the job has ended, handing new steps to ``progress``. Interrupting it leaves the job running."""
    tail, polls, seen = Tail(run.path / STDOUT), 0, ("", False)
    while True:
        observation = observe([run])[0]
        progress(observation, tail.read())
        # The last lines of a job that completed may still be on their way to this host: it is not incomplete yet.
        completed = observation.job is not None and observation.job.state == "COMPLETED"
        late = completed and not observation.settled and end_of(observation).ending is Ending.INCOMPLETE
        if observation.over and not late:
            return observation
        done = run.done() is not None
        word = (observation.job.state if observation.job else observation.note, done)
        polls = 0 if word != seen else polls + 1
        seen = word
        # Between two polls of the scheduler the log is read every half second: it costs the scheduler nothing.
        until = time.monotonic() + backoff(polls)
        while time.monotonic() < until and (run.done() is not None) is done:
            time.sleep(0.5)
            if steps := tail.read():
                progress(observation, steps)


def end_of(observation: Observation) -> End:
    """How an ended job ended, by the scheduler's word, its own files and its log.

    What rests on evidence is written down, because schedulers forget. A guess is not, nor what was read from files that
    may still change, nor anything where the disk is full or read-only: it is found again next time.
    """
    run = observation.run
    written = recorded(run.read_json(ENDING))
    if written is not None:
        return written
    if observation.job is None:
        end = End(Ending.LAUNCH_FAILED, (observation.note,), final=observation.settled)
    else:
        log = parse_log(*run.logs) if run.logs else None
        end = classify(
            observation.job,
            done_of(run, observation.job),
            symptoms=_symptoms(log),
            steps_seen=log.steps_made if log else 0,
            steps_planned=run.spec.training.steps,
            quiet_s=observation.quiet_s,
        )
        end = replace(end, last_step=log.steps.last_step if log else None)
        # The log of a job that completed cannot lose its steps again; any other name may still change with it.
        whole = end.ending is Ending.COMPLETED and described(run)
        end = replace(end, final=end.final and (whole or observation.settled))
    if end.final:
        document = {
            "schema_version": 1,
            "ending": end.ending.value,
            "evidence": end.evidence,
            "exit_code": end.exit_code,
            "last_step": end.last_step,
        }
        with contextlib.suppress(OSError):
            run.write_json(ENDING, document)
            run.append_event("ended", ending=end.ending.value)
    return end


def metrics_of(run: RunDir, warmup: int | None = None) -> Metrics | None:
    """Measure one run from its files; write steps.jsonl, telemetry.json and metrics.json, where that is allowed.

    None without a log.
    """
    if not run.logs:
        return None
    log = parse_log(*run.logs)
    metrics, samples = measured(run, log, warmup)
    if not run.writable:
        return metrics
    run.write_text("steps.jsonl", "".join(f"{line}\n" for line in lines(log.distinct, "jsonl")))
    if samples:
        run.write_json("telemetry.json", samples.model_dump(mode="json"))
    run.write_json("metrics.json", metrics.model_dump(mode="json"))
    return metrics


def measured(run: RunDir, log: Log, warmup: int | None = None) -> tuple[Metrics, Sampled | None]:
    """What ``log`` and the files beside it say of one run. Nothing is written."""
    metrics = metrics_of_log(log, run.spec, warmup)
    samples = samples_of(run, metrics)
    found = {
        "telemetry": samples.over_all if samples else None,
        "bound": _bound(run, metrics),
        "breakdown": _document(run, "breakdown.json", Breakdown),
    }
    return metrics.model_copy(update=found), samples


def samples_of(run: RunDir, found: Metrics | Summary) -> Sampled | None:
    """What the GPUs did in the window of ``found``; None where nothing was sampled."""
    files, step, window = run.telemetry(), found.step_time_s, found.window
    rate = found.tokens_per_s_per_gpu.median
    if not (files and step and window and rate and found.num_gpus):
        return None
    steps = window.last_step - window.first_step + 1
    # A step's tokens are its rate times its time. Of their means the product is too large where steps differ.
    tokens = rate * step.median * found.num_gpus * steps
    seconds = step.mean * steps
    return sampled(files, num_gpus=found.num_gpus, seconds=seconds, tokens=tokens, until=ended_at(*run.logs))


def _bound(run: RunDir, metrics: Metrics) -> Bound | None:
    """The step beside the ceilings that the run measured before it."""
    ceilings, spec = _document(run, "ceilings.json", Ceilings), run.spec
    if ceilings is None or metrics.step_time_s is None:
        return None
    return bound(
        ceilings,
        model=spec.model,
        seq_length=spec.seq_length,
        sequences_per_gpu=spec.gbs / spec.num_gpus,
        num_microbatches=spec.num_microbatches,
        precision=spec.precision,
        fp8_attention=spec.training.fp8.dot_product_attention,
        task=spec.task,
        step_time_s=metrics.step_time_s.median,
    )


def _document(run: RunDir, name: str, model: type[D]) -> D | None:
    """What was written into the run, if it was; UserError for a file that holds something else."""
    document = run.read_json(name)
    if document is None:
        return None
    try:
        return model.model_validate(document)
    except ValidationError as error:
        where, hint = str(run.path / name), "another version wrote it, or it is damaged; move it away"
        raise UserError(f"not what benchrun writes: {error.errors()[0]['msg']}", where=where, hint=hint) from None


def metrics_of_log(log: Log, spec: RunSpec, warmup: int | None = None) -> Metrics:
    """Measure a log under the conditions of ``spec``."""
    return measure(
        log,
        model=spec.model,
        seq_length=spec.seq_length,
        gbs=spec.gbs,
        num_gpus=spec.num_gpus,
        gpu=spec.gpu,
        precision=spec.precision,
        planned_steps=spec.training.steps,
        task=spec.task,
        warmup=warmup,
    )


def judge_log(
    log: Log, recipe: str, given: Known, warmup: int | None = None, reference: str | None = None
) -> tuple[Verdict, Metrics]:
    """Judge a bare log as a run of ``recipe``. The log is believed before the caller.

    UserError for a condition that neither says, and for a log of another model.
    """
    file = catalogue.recipe_file(recipe)
    recipe, workload = file.name, file.recipe
    said = known(log, replace(given, seq_length=given.seq_length or workload.seq_length, task=workload.task))
    model = _model_of(log, recipe, given.model or workload.model)
    batch, num_gpus, gpu, precision = said.global_batch_size, said.num_gpus, said.gpu, said.precision
    if batch is None or num_gpus is None or gpu is None or precision is None:
        options = {"--gbs": batch, "--num-gpus": num_gpus, "--gpu": gpu, "--precision": precision}
        missing = " and ".join(option for option, value in options.items() if value is None)
        hint = (
            None
            if len(log.steps)
            else f"it holds no step of {log.framework if log.framework in DIALECTS else 'any known framework'}"
        )
        raise UserError(
            f"the log does not say under which conditions it was made: add {missing}", where=log.file, hint=hint
        )
    facts, seq_length = log.facts, said.seq_length or workload.seq_length
    metrics = measure(
        log,
        model=model,
        seq_length=seq_length,
        gbs=batch,
        num_gpus=num_gpus,
        gpu=gpu,
        precision=precision,
        planned_steps=log.planned_steps,
        task=said.task,
        warmup=warmup,
    )
    ours = Conditions(
        recipe=recipe,
        task=said.task,
        gpu=gpu,
        num_gpus=num_gpus,
        precision=precision,
        num_layers=model.num_layers,
        dimensions=dimensions(reductions(model, workload.model)),
        seq_length=seq_length,
        gbs=batch,
        framework=log.framework if len(log.steps) else None,
        framework_version=facts.framework_version,
        mbs=facts.mbs,
        **{name: getattr(facts, name) for name in ("tp", "pp", "cp", "vp", "ep")},
        steps=log.planned_steps,
        shape=shape_of(workload.model),
        reduced=reductions(model, workload.model),
    )
    return _judged(ours, [metrics], reference, lambda: [log]), metrics


def _model_of(log: Log, recipe: str, model: ModelShape) -> ModelShape:
    """The recipe's model with the log's dimensions, which may make it a proxy; UserError for another kind of model."""
    for name in ("hidden_size", "num_attention_heads"):
        logged, expected = getattr(log.facts, name), getattr(model, name)
        if logged is not None and logged != expected:
            raise UserError(f"the log's model has {name} {logged}, {recipe} has {expected}", where=log.file)
    if log.facts.gated is not None and log.facts.gated != model.gated:
        words = ("no gate in its MLP", "a gated MLP")
        raise UserError(
            f"the log's model has {words[log.facts.gated]}, {recipe} has {model.activation}", where=log.file
        )
    if model.moe is None and (log.facts.num_experts or 1) > 1:
        raise UserError(f"the log's model has {log.facts.num_experts} experts, {recipe} has none", where=log.file)
    return as_logged(model, log.facts)


def result_of(run: RunDir) -> RunResult:
    """What is known of one run: measured anew from its log, with the verdict that was given. Nothing is written."""
    verdict = _document(run, "verdict.json", Verdict)
    warmup = verdict.warmup if verdict else None
    metrics = measured(run, parse_log(*run.logs), warmup)[0] if run.logs else None
    end = recorded(run.read_json(ENDING))
    return RunResult(run.run_id, run.spec, metrics, verdict, end.ending.value if end else None)


def verdict_of(
    runs: Sequence[RunDir],
    warmup: int | None = None,
    reference: str | None = None,
    others: Sequence[RunDir] = (),
) -> tuple[Verdict, Metrics | None]:
    """Judge the repeats of one point together; writes verdict.json into each that can be written.

    None of ``others``, which are judged in the same breath, is a reference. The metrics are the first run's.
    """
    observations = observe(runs)
    going = next((observation for observation in observations if not observation.over), None)
    if going:
        raise UserError(f"{going.run.run_id} has not ended", hint=f"benchrun status {going.run.run_id}")
    ends = [end_of(observation) for observation in observations]
    broken = next(((end, run) for end, run in zip(ends, runs, strict=True) if end.ending is not Ending.COMPLETED), None)
    found = [metrics for run in runs if (metrics := metrics_of(run, warmup)) is not None]
    ending = broken[0].ending.value if broken else Ending.COMPLETED.value
    names = [run.run_id for run in (*runs, *others)]
    verdict = _judged(
        conditions(runs[0].spec),
        found,
        reference,
        lambda: [parse_log(*run.logs) for run in runs if run.logs],
        ending=ending,
        names=names,
    )
    if broken and len(runs) > 1:
        verdict = verdict.model_copy(update={"reason": f"{verdict.reason} ({broken[1].run_id})"})
    for run in runs:
        if run.writable:
            run.write_json("verdict.json", verdict.model_dump(mode="json"))
    return verdict, found[0] if found else None


def _judged(
    ours: Conditions,
    metrics: Sequence[Metrics],
    reference: str | None,
    logs: Callable[[], list[Log]],
    *,
    ending: str | None = None,
    names: Sequence[str] = (),
) -> Verdict:
    """Held against what is published; where that says nothing, against what we measured, but never against itself.

    Against ``reference`` alone where one is named; ``names`` are the runs that are judged, ``logs`` reads them.
    """
    named = reference is not None
    verdict = judge(ours, metrics, references_for(reference, ours), ending=ending, by_name=named)
    if named or verdict.verdict not in ("no_reference", "not_comparable"):
        return verdict
    kept = load_measured()
    itself = {*names, *copies(logs(), kept, ours)}
    own = judge(ours, metrics, measured_references(kept, without=itself), ending=ending)
    return own if own.checks else verdict


def keep(run: RunDir, folder: Path) -> RunDir:
    """Keep what a judged run measured in ``folder``, without the names and paths of the machine.

    UserError where it has no valid verdict, where it is kept already, and where what is kept would give other numbers.
    """
    verdict = _document(run, "verdict.json", Verdict)
    if verdict is None or verdict.verdict == "invalid_run":
        said = "was not judged" if verdict is None else f"measured nothing: {verdict.reason}"
        raise UserError(f"{run.run_id} {said}", hint=f"benchrun compare {run.run_id}")
    metrics = metrics_of(run, verdict.warmup)
    kept = write_kept(folder, kept_name(run), kept_files(run))
    if measured(kept, parse_log(*kept.logs), verdict.warmup)[0] != metrics:
        shutil.rmtree(kept.path)
        raise UserError(f"{run.run_id}: without this machine's names and paths its log gives other numbers")
    return kept


def repeats(runs: Sequence[RunDir]) -> list[list[RunDir]]:
    """Runs grouped by what they measure, in the order given."""
    groups: dict[str, list[RunDir]] = {}
    for run in runs:
        groups.setdefault(run.spec.repeat_key(), []).append(run)
    return list(groups.values())


def _symptoms(log: Log | None) -> dict[str, str]:
    """The first problem of each kind, by kind."""
    return {problem.kind: problem.detail for problem in reversed(log.problems)} if log else {}
