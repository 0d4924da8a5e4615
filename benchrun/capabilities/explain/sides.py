"""Two runs with everything that their files hold, to stand beside each other."""

from typing import Any

from benchrun.judge.difference import Side
from benchrun.show.runs import NOT_COMPARED
from benchrun.vocabulary import by_path

from .evidence import Evidence, alike
from .waterfall import waterfall


def sides_of(a: Evidence, b: Evidence) -> tuple[Side, Side]:
    """Two runs, with parts of the same kinds."""
    first, second = (_side(run) for run in alike(a, b))
    return first, second


def _side(run: Evidence) -> Side:
    tokens = run.spec.tokens_per_step / run.spec.num_gpus
    parts = {part.part: part.seconds for part in waterfall(run)}
    return Side(run.name, run.times, tokens, compared_fields(run), parts, _work(run))


def _work(run: Evidence) -> dict[str, Any]:
    """The model, except the longest sequence that it takes, and the task."""
    return {
        "model": run.spec.model.model_dump(exclude={"max_position_embeddings"}),
        "task": run.spec.task,
    }


def compared_fields(run: Evidence) -> dict[str, Any]:
    """Every field of the specification, and the clock of the GPUs."""
    fields = dict(by_path(run.spec.model_dump(mode="json")))
    chosen = {}
    for name, value in fields.items():
        if name.partition(".")[0] not in NOT_COMPARED:
            chosen[name] = value
    clock = None
    if run.samples:
        clock = run.samples.over_all.sm_clock_mhz
    return chosen | dict(run.machine) | {"clock (MHz)": clock}
