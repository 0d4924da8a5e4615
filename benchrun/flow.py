"""The whole way, joined: the one module that knows every room. The command line calls nothing deeper."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from benchrun.compare import Conditions, Verdict, conditions, judge, load_references
from benchrun.errors import UserError
from benchrun.launch.endings import End, Ending, classify
from benchrun.launch.launcher import Observation, backoff, launch, observe
from benchrun.launch.rundir import ENDING, STDOUT, RunDir
from benchrun.metrics.known import Known, known
from benchrun.metrics.measure import Metrics, measure
from benchrun.model import ModelShape
from benchrun.parse import Log, Step, Tail, parse_log
from benchrun.recipe import catalogue
from benchrun.recipe.resolve import resolve
from benchrun.recipe.select import Request
from benchrun.recipe.spec import RunSpec
from benchrun.render import render
from benchrun.report.runs import RunResult
from benchrun.report.steps import lines

Progress = Callable[[Observation, list[Step]], None]


def resolve_all(request: Request) -> list[RunSpec]:
    """The runs of a point, or of a suite of that name."""
    if not catalogue.is_suite(request.recipe):
        return [resolve(request)]
    requests = []
    for run in catalogue.suite(request.recipe).runs:
        overrides = tuple(f"{key}={json.dumps(value)}" for key, value in run.set.items())
        requests.append(
            Request(
                run.recipe,
                request.gpu or run.gpu,
                request.precision or run.precision,
                request.num_gpus or run.num_gpus,
                request.framework or run.framework,
                request.cluster,
                (*overrides, *request.overrides),
            )
        )
    return [resolve(each) for each in requests]


def start(spec: RunSpec, root: Path) -> RunDir:
    """Render and launch one run."""
    return launch(spec, render(spec), root)


def wait(run: RunDir, progress: Progress) -> Observation:
    """Poll until the job has ended, handing new steps to ``progress``. Interrupting it leaves the job running."""
    tail, polls, seen = Tail(run.path / STDOUT), 0, ("", False)
    while True:
        observation = observe([run])[0]
        progress(observation, tail.read())
        if observation.over:
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
    """How an ended job ended, by the scheduler's word, its own files and its log."""
    run = observation.run
    written = run.read_json(ENDING)
    if written is not None:
        return End(Ending(written["ending"]), tuple(written["evidence"]), written["exit_code"])
    if observation.job is None:
        end = End(Ending.LAUNCH_FAILED, (observation.note,))
    else:
        log = parse_log(*run.logs) if run.logs else None
        end = classify(
            observation.job,
            run.done(),
            symptoms=_symptoms(log),
            steps_seen=(log and log.steps.last_step) or 0,
            steps_planned=run.spec.training.steps,
            quiet_s=observation.quiet_s,
        )
    document = {"schema_version": 1, "ending": end.ending.value, "evidence": end.evidence, "exit_code": end.exit_code}
    run.write_json(ENDING, document)
    run.append_event("ended", ending=end.ending.value)
    return end


def metrics_of(run: RunDir, warmup: int | None = None) -> Metrics | None:
    """Measure one run from its log and write steps.jsonl and metrics.json. None without a log."""
    if not run.logs:
        return None
    log = parse_log(*run.logs)
    metrics = metrics_of_log(log, run.spec, warmup)
    with (run.path / "steps.jsonl").open("w") as file:
        file.writelines(f"{line}\n" for line in lines(log.distinct, "jsonl"))
    run.write_json("metrics.json", metrics.model_dump(mode="json"))
    return metrics


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


def judge_log(log: Log, recipe: str, given: Known, warmup: int | None = None) -> tuple[Verdict, Metrics]:
    """Judge a bare log as a run of ``recipe``. The log is believed before the caller.

    UserError for a condition that neither says, and for a log of another model.
    """
    workload = catalogue.recipe_file(recipe).recipe
    said = known(log, replace(given, seq_length=given.seq_length or workload.seq_length, task=workload.task))
    model = _model_of(log, recipe, given.model or workload.model)
    batch, num_gpus, gpu, precision = said.global_batch_size, said.num_gpus, said.gpu, said.precision
    if batch is None or num_gpus is None or gpu is None or precision is None:
        options = {"--gbs": batch, "--num-gpus": num_gpus, "--gpu": gpu, "--precision": precision}
        missing = " and ".join(option for option, value in options.items() if value is None)
        raise UserError(f"the log does not say under which conditions it was made: add {missing}", where=log.file)
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
        seq_length=seq_length,
        gbs=batch,
        framework=log.framework if len(log.steps) else None,
        mbs=facts.micro_batch_size,
        **{name: getattr(facts, name) for name in ("tp", "pp", "cp", "vp", "ep")},
        steps=log.planned_steps,
    )
    return judge(ours, [metrics], load_references()), metrics


def _model_of(log: Log, recipe: str, model: ModelShape) -> ModelShape:
    """The recipe's model with the log's number of layers; UserError where another dimension differs."""
    for name in ("hidden_size", "num_attention_heads"):
        logged, expected = getattr(log.facts, name), getattr(model, name)
        if logged is not None and logged != expected:
            raise UserError(f"the log's model has {name} {logged}, {recipe} has {expected}", where=log.file)
    return model.model_copy(update={"num_layers": log.facts.num_layers or model.num_layers})


def result_of(run: RunDir) -> RunResult:
    """What is known of one run: measured anew from its log, with the verdict that was given."""
    written = run.read_json("verdict.json")
    verdict = Verdict.model_validate(written) if written else None
    return RunResult(run.run_id, run.spec, metrics_of(run), verdict)


def verdict_of(runs: Sequence[RunDir], warmup: int | None = None) -> tuple[Verdict, Metrics | None]:
    """Judge the repeats of one point together; writes verdict.json into each. The metrics are the first run's."""
    observations = observe(runs)
    going = next((observation for observation in observations if not observation.over), None)
    if going:
        raise UserError(f"{going.run.run_id} has not ended", hint=f"benchrun status {going.run.run_id}")
    ends = [end_of(observation) for observation in observations]
    broken = next((end.ending.value for end in ends if end.ending is not Ending.COMPLETED), None)
    measured = [metrics for run in runs if (metrics := metrics_of(run, warmup)) is not None]
    ending = broken or Ending.COMPLETED.value
    verdict = judge(conditions(runs[0].spec), measured, load_references(), ending=ending)
    for run in runs:
        run.write_json("verdict.json", verdict.model_dump(mode="json"))
    return verdict, measured[0] if measured else None


def repeats(runs: Sequence[RunDir]) -> list[list[RunDir]]:
    """Runs grouped by what they measure, in the order given."""
    groups: dict[str, list[RunDir]] = {}
    for run in runs:
        groups.setdefault(f"{run.spec.recipe} {run.spec.identity()} {run.spec.cluster.name}", []).append(run)
    return list(groups.values())


def _symptoms(log: Log | None) -> dict[str, str]:
    """The first problem of each kind, by kind."""
    return {problem.kind: problem.detail for problem in reversed(log.problems)} if log else {}
