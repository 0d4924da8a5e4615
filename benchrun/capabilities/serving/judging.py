"""Judging the result of a benchmark of a server that benchrun did not launch."""

import math
from dataclasses import replace
from typing import Any

from benchrun.errors import UserError
from benchrun.judge.conditions import Conditions
from benchrun.judge.references import families
from benchrun.logs import Log
from benchrun.measure.setting import Setting, setting_of_log
from benchrun.model import ModelShape
from benchrun.recipes.catalogue import RecipeFile
from benchrun.vocabulary import request_load


def result_conditions(log: Log, file: RecipeFile, given: Setting) -> tuple[Conditions, Setting]:
    """The conditions of the result in ``log`` as one of the recipe ``file``, and the
    setting of its measurement.

    UserError if neither the log nor ``given`` states the GPU, their number, the
    precision or the lengths.
    """
    if not log.served:
        raise UserError("the log has no result of a benchmark of a server", where=log.file)
    setting = setting_of_log(log, given)
    if missing := [
        name for name in ("gpu", "num_gpus", "precision") if getattr(setting, name) is None
    ]:
        options = " and ".join(f"--{name.replace('_', '-')}" for name in missing)
        raise UserError(f"the log does not state these conditions: add {options}", where=log.file)
    sizes = ModelShape.model_validate((file.recipe.model_extra or {})["model"])
    facts = log.facts
    precision = given.precision or setting.precision
    own = Conditions(
        recipe=file.name,
        task=file.recipe.task,
        gpu=str(setting.gpu),
        num_gpus=setting.num_gpus,
        precision=precision,
        num_layers=sizes.num_layers,
        seq_length=None,
        gbs=None,
        settings=request_load(_load(log)),
        framework=log.framework if log.framework in families() else None,
        **{name: getattr(facts, name) for name in ("tp", "pp", "ep")},
    )
    return own, replace(setting, precision=precision)


def _load(log: Log) -> dict[str, Any]:
    """Lengths, concurrency and rate of the requests. UserError if the lengths are not
    known.
    """
    served = log.served[-1]
    settings = served.settings
    values = served.values
    load: dict[str, Any] = {
        "concurrency": settings.get("concurrency"),
        "shortest": settings.get("shortest", 1.0),
    }
    for side in ("input_tokens", "output_tokens"):
        mean = values.get(f"mean_{side}")
        whole = None
        if mean is not None and abs(mean - round(mean)) < 1e-9:
            whole = mean
        load[side] = settings.get(f"longest_{side}") or settings.get(side) or whole
        if load[side] is None:
            hint = None
            if mean is not None:
                hint = f"its mean is {mean:.4g}"
            raise UserError(
                f"the result does not state {side} of a request", where=log.file, hint=hint
            )
    rate = settings.get("request_rate")
    if isinstance(rate, (int, float)) and math.isfinite(rate):
        load["request_rate"] = rate
    return load
