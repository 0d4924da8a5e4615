"""The property: benchrun says the truth, says nothing, or ends with 4 (2: the user's contradiction)."""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from .endings import ALIASES, CRASHES
from .forms import ALL
from .product import Answer
from .truth import OPTION, PEAKS, Truth

HYBRID = "hybrid_override_pattern"
SLACK = 0.012
"""Relative difference that the noise of the steps and the window's choice explain."""

LONG_S = 10
"""Seconds of a row of which two dates of whole seconds tell enough."""


@dataclass(frozen=True)
class Finding:
    """One statement of benchrun that is not the truth."""

    kind: str
    truth: str
    said: str


def known(truth: Truth) -> frozenset[str]:
    """Fields that the log states or the user typed rightly."""
    model = {"model"} if "recipe" in truth.typed and truth.model.recipe else set()
    return ALL[truth.form].states(truth) | set(truth.typed) | model


_SETTING = {"num_gpus", "seq_length", "gbs"}


def silent_loss(truth: Truth) -> bool:
    """Whether the form prints what is wrong with the losses or the gradients."""
    form = ALL[truth.form]
    if truth.loss == "constant":
        return form.loss_digits >= 5
    if truth.loss == "nan":
        return form.loss_digits > 0
    return truth.loss in ("nan_gradient", "zero_gradient") and form.gradient


def contradicted(truth: Truth) -> bool:
    """Whether the log prints a rate or a date that is not the true one."""
    factors = (truth.rate_factor, truth.tflops_factor, truth.dates_factor, truth.beside_factor)
    return factors != (1, 1, 1, 1)


def visible(truth: Truth) -> bool:
    """Whether a wrong rate can be told from what is known."""
    have = known(truth)
    if truth.beside_factor != 1:
        return True
    if truth.dates_factor != 1:
        return _timed(have) and truth.step_s * truth.interval > LONG_S
    rated = _timed(have - {"rates"}) and have >= _SETTING
    if truth.tflops_factor == 1:
        return rated
    return rated and "model" in have and not (truth.lora or truth.exotic or _unusual(truth))


def unstated_fp4(truth: Truth) -> bool:
    """Whether the job is faster than all but NVFP4 allows, which nobody states: benchrun asks for the precision."""
    fp8 = PEAKS[truth.gpu].get("fp8", math.inf)
    return "precision" not in known(truth) and truth.tflops(causal=True) > (1 - SLACK) * fp8


def apart(truth: Truth) -> bool:
    """Whether the lines of two jobs differ in anything but their times."""
    form = ALL[truth.form]
    return form.numbered or form.loss_digits > 0


def codes(truth: Truth) -> frozenset[int]:
    """Exit codes that are right."""
    states = ALL[truth.form].states(truth)
    if truth.wrong or truth.impossible:
        return frozenset({2, 4})
    if truth.exotic == HYBRID and "recipe" in truth.typed:
        return frozenset({2})  # no recipe of the generator has such layers
    if contradicted(truth):
        return frozenset({4} if visible(truth) else {0, 4})
    if truth.loss == "constant" and truth.pp > 1 and truth.ending == "complete":
        return frozenset({0, 4})  # a stage that does not compute the loss may print a placeholder
    if truth.second_job and not apart(truth):
        return frozenset({0, 4})
    if truth.second_job or truth.newest_first or truth.trained_before or truth.ending in CRASHES or silent_loss(truth):
        return frozenset({4})
    if truth.ending == "complete":
        return frozenset({0, 4} if unstated_fp4(truth) else {0})
    return frozenset({4}) if "planned" in states else frozenset({0, 4})


def required(truth: Truth) -> frozenset[str]:
    """Numbers that a sound log must give: nothing may be left out that follows from what is stated."""
    if codes(truth) != {0}:
        return frozenset()
    have = known(truth)
    found = {"complete"} & {"complete" if "planned" in have else ""}
    timed = _timed(have)
    found |= {"step_time_s"} if timed else set()
    rated = "rates" in have or (timed and have >= _SETTING) or have >= {"total_rate", "num_gpus"}
    rated = rated and not ALL[truth.form].conversations
    found |= {"tokens_per_s_per_gpu"} if rated else set()
    counted = rated and {"model", "seq_length"} <= have
    if counted and not (truth.lora or truth.exotic or _unusual(truth)):
        found.add("tflops")
        if {"gpu", "precision"} <= have and truth.peak:
            found.add("mfu")
    return frozenset(found)


def _timed(have: frozenset[str]) -> bool:
    """Whether a step time follows from what is known."""
    ways = ({"step_s"}, _SETTING | {"rates"}, {"total_rate", "gbs", "seq_length"}, {"sample_rate", "gbs"})
    return any(way <= have for way in ways)


def _unusual(truth: Truth) -> bool:
    """Whether the model has parts that benchrun may leave uncounted."""
    m = truth.model
    mixed = m.experts and not truth.form.startswith("megatron")
    other = not m.gated and truth.form.startswith("maxtext")
    return bool(m.latent or m.window or m.mtp or m.shared_ffn or mixed or other)


def numbers(truth: Truth, peak: float | None) -> dict[str, tuple[float, ...]]:
    """Right values by the name of the statement; MFU in percent of ``peak``, in TFLOPS."""
    found: dict[str, tuple[float, ...]] = {
        "step_time_s": (truth.step_s,),
        "tokens_per_s_per_gpu": (truth.tokens_per_s_per_gpu,),
    }
    for convention in ("full", "causal"):
        value = truth.tflops(convention == "causal")
        right = () if truth.exotic else (value,)
        found[f"tflops.{convention}"] = right
        found[f"mfu.{convention}"] = tuple(100 * each / peak for each in right) if peak else ()
    return found


def said(document: dict[str, Any]) -> dict[str, Any]:
    """The statements of a document under the names of `numbers`."""
    shares = document["mfu"][0] if document["mfu"] else {}
    found = {name: (document[name] or {}).get("median") for name in _MEDIANS}
    for convention in ("full", "causal"):
        found[f"tflops.{convention}"] = (document["tflops_per_gpu"] or {}).get(convention)
        share = shares.get(convention)
        found[f"mfu.{convention}"] = 100 * share if share is not None else None
    return found


_MEDIANS = ("step_time_s", "tokens_per_s_per_gpu")


def _close(value: float, right: float, slack: float) -> bool:
    return abs(value - right) <= slack * abs(right)


def _guessed(truth: Truth, document: dict[str, Any]) -> bool:
    """Whether benchrun says itself that its number of GPUs is a guess."""
    return "num_gpus" in document["derived"] and "num_gpus" not in known(truth)


def _divisor(truth: Truth, document: dict[str, Any]) -> float | None:
    """The peak of an MFU: of the stated precision, or of the BF16 that benchrun says it assumes."""
    if document["precision"]:
        return truth.peak
    named = document["mfu"][0]["divisor"] if document["mfu"] else ""
    return PEAKS[truth.gpu]["bf16"] if named == f"{truth.gpu} bf16 dense" else None


def _judged(truth: Truth, document: dict[str, Any], names: Iterable[str]) -> list[str]:
    """Numbers that can be wrong: not those of a labelled guess, nor MFU at a list of peaks."""
    if _guessed(truth, document):
        return ["step_time_s"]
    if truth.model.window:  # how much a window leaves of all scores is a matter of definition
        names = [name for name in names if not name.endswith(".full")]
    if _divisor(truth, document):
        return list(names)
    return [name for name in names if not name.startswith("mfu")]


def _wrong_numbers(truth: Truth, document: dict[str, Any], values: dict[str, Any]) -> Iterator[Finding]:
    slack = SLACK + 1.2 * ALL[truth.form].resolution(truth)
    rights = numbers(truth, _divisor(truth, document))
    for name in _judged(truth, document, rights):
        value, right = values[name], rights[name]
        if value is None:
            continue
        if not any(_close(value, each, slack) for each in right):
            yield Finding(f"wrong {name}", str(right or None), str(value))
            return  # the others follow from it


def _missing(truth: Truth, document: dict[str, Any], values: dict[str, Any]) -> Iterator[Finding]:
    wanted, rights = required(truth), numbers(truth, truth.peak)
    for name in sorted(wanted - {"tflops", "mfu", "complete"}):
        if values[name] is None:
            yield Finding(f"missing {name}", str(rights[name]), "None")
    for name in sorted(wanted & {"tflops", "mfu"}):
        if values[f"{name}.causal"] is None and values[f"{name}.full"] is None:
            yield Finding(f"missing {name}", str(rights[f"{name}.causal"]), "None")


def _facts(truth: Truth) -> dict[str, tuple[Any, ...]]:
    """Right values of what a document states of the job; None is always right."""
    model = truth.model
    bits = truth.precision
    return {
        "num_gpus": (truth.gpus,),
        "seq_length": (truth.seq_length,),
        "global_batch_size": (truth.gbs,),
        "precision": (bits, OPTION.get(bits, bits)),
        "micro_batch_size": (truth.mbs,),
        "layout.tp": (truth.tp,),
        "layout.pp": (truth.pp,),
        "layout.cp": (truth.cp,),
        "model.num_layers": (model.layers,),
        "model.hidden_size": (model.hidden,),
    }


def _fact(document: dict[str, Any], name: str) -> Any:
    value: Any = document
    for part in name.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value


def _wrong_facts(truth: Truth, document: dict[str, Any]) -> Iterator[Finding]:
    for name, right in _facts(truth).items():
        value = _fact(document, name)
        if name == "num_gpus" and _guessed(truth, document):
            continue
        if value is not None and value not in right:
            yield Finding(f"wrong {name}", str(right), str(value))
    if document["framework"] not in ALL[truth.form].product:
        yield Finding("wrong framework", str(sorted(ALL[truth.form].product)), document["framework"])


def _steps(truth: Truth, document: dict[str, Any]) -> Iterator[Finding]:
    """First and last step as the form numbers them, and whether the planned end was reached."""
    form = ALL[truth.form]
    shift = 1 if form.zero_based else 0
    first = truth.first_step - 1 + truth.interval - shift
    last = truth.first_step - 1 + truth.rows * truth.interval - shift
    lasts = (last, last - truth.interval) if truth.ending == "truncated" else (last,)
    firsts = (first, truth.first_step - shift) if form.bars else (first,)
    if form.numbered and document["first_step"] not in firsts:
        yield Finding("wrong first_step", str(firsts), str(document["first_step"]))
    if form.numbered and document["last_step"] not in lasts:
        yield Finding("wrong last_step", str(lasts), str(document["last_step"]))
    finished = truth.ending == "complete"
    if document["complete"] not in (None, finished):
        yield Finding("wrong complete", str(finished), str(document["complete"]))
    if "complete" in required(truth) and document["complete"] is None:
        yield Finding("missing complete", str(finished), "None")


def _cause(truth: Truth, document: dict[str, Any]) -> Iterator[Finding]:
    """The class of a crash and its line."""
    fatal = document["fatal"]
    kind = fatal["kind"] if fatal else None
    if kind not in ALIASES.get(truth.ending, {truth.ending}):
        yield Finding(f"wrong cause of {truth.ending}", truth.ending, str(kind))
        return
    wordings = CRASHES[truth.ending]
    key = wordings[truth.crash % len(wordings)].key
    if key not in (fatal["detail"] or ""):
        yield Finding(f"wrong detail of {truth.ending}", key, str(fatal["detail"]))


def judge(truth: Truth, answer: Answer) -> list[Finding]:
    """What benchrun said wrongly, or left out although the log and the user state it."""
    right = codes(truth)
    if answer.code not in right:
        problems = [f"{p['kind']}: {p['detail']}" for d in answer.documents for p in d["problems"]]
        text = f"{answer.code} {problems} {answer.stderr.strip()[:200]}"
        return [Finding(f"exit code {answer.code}, {_why(truth)}", str(sorted(right)), text)]
    refused = truth.wrong or truth.impossible or right == {2}
    if refused or truth.second_job or truth.newest_first or truth.trained_before or contradicted(truth):
        return []
    if len(answer.documents) != 1:
        return [Finding("number of runs", "1", str(len(answer.documents)))]
    document = answer.documents[0]
    values = said(document)
    found = [*_wrong_numbers(truth, document, values), *_missing(truth, document, values)]
    found += [*_wrong_facts(truth, document), *_steps(truth, document)]
    if truth.ending in CRASHES:
        found += _cause(truth, document)
    return found


def judge_verdict(truth: Truth, answer: Answer) -> list[Finding]:
    """What is wrong with a verdict: a log without a right number, or of other work, has none."""
    if answer.code == 3:
        return [Finding("compare ends with 3", "no traceback", answer.stderr.strip()[-300:])]
    other = truth.lora or truth.exotic or _unusual(truth) or truth.model.recipe is None
    if (other or not codes(truth) & {0}) and answer.code not in (2, 4):
        found = [document.get("verdict") for document in answer.documents]
        why = "other work" if other else _why(truth)
        return [Finding(f"verdict with {why}", "2 or 4", f"{answer.code} {found}")]
    return []


def _why(truth: Truth) -> str:
    """What is wrong with the log, in a few words."""
    reasons = {
        f"wrong {truth.wrong}": truth.wrong is not None,
        "impossible precision": truth.impossible,
        "printed rate contradicts": truth.rate_factor != 1,
        "printed TFLOPS contradict": truth.tflops_factor != 1,
        "second statement contradicts": truth.beside_factor != 1,
        "dates contradict": truth.dates_factor != 1,
        "two jobs": truth.second_job,
        "trained before": truth.trained_before,
        "newest first": truth.newest_first,
        f"loss {truth.loss}": truth.loss != "sound",
        f"ending {truth.ending}": truth.ending != "complete",
    }
    return next((name for name, applies in reasons.items() if applies), "sound")
