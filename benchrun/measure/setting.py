"""The setting of a log: what it states itself, completed by what the caller states."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import get_args

from benchrun import hardware
from benchrun.errors import UserError
from benchrun.hardware import Device
from benchrun.logs.launched import dimensions
from benchrun.logs.records import Facts, Log
from benchrun.model import VOCAB_MULTIPLE, ModelShape, Moe
from benchrun.model.flops import FlopsPerToken, flops_per_token
from benchrun.runspec.command import CommandSpec
from benchrun.runspec.spec import RunSpec, TrainingSpec
from benchrun.vocabulary import Task

from .parts import FIELDS, parts_of, unknown_options, untrained

SAME_MODEL = 0.02
"""Relative difference of the active parameters up to which two models count as one: a
padded vocabulary makes some.
"""
PEAKED = ("bf16", "fp8", "nvfp4")
"""Precisions with a peak."""
POSSIBLE: Mapping[str | None, tuple[str, ...]] = {None: PEAKED[:2], "fp32": PEAKED[:1]}
"""Precision without a listed peak -> those whose peaks bound its speed; any of `PEAKED`
for the others.
"""
MOST_TP = 8
"""Largest tp assumed of a log that does not state it: Megatron-LM pads a vocabulary to
a multiple of 128 tp.
"""


@dataclass(frozen=True)
class Setting:
    """Facts that turn step times into rates, TFLOPS and MFU.

    A field is None if neither log nor caller states it.
    """

    seq_length: int | None = None
    gbs: int | None = None
    num_gpus: int | None = None
    gpu: str | None = None
    """Name in benchrun/hardware/hardware.csv; the driver's for one that is not listed.
    """
    precision: str | None = None
    model: ModelShape | None = None
    task: Task = "pretrain"
    fixed_length: bool = True
    """Every sample has ``seq_length`` tokens; otherwise a batch does not give the
    number of tokens.
    """

    hardware: Device | None = None
    """Peaks of a GPU that the table does not list."""
    peak: float | None = None
    """Dense peak at ``precision`` in TFLOPS, as the caller states it."""
    num_prompts: int | None = None
    """Requests that a benchmark of a server was to send."""
    unknown_options: tuple[str, ...] = ()
    """Arguments of the log that change the work and are not understood, as ``name
    value``: no FLOPs are known.
    """
    derived: Mapping[str, str] = field(default_factory=dict, compare=False)
    """Field that neither log nor caller states -> what its value follows from."""

    def flops_per_token(self) -> FlopsPerToken | None:
        """FLOPs per token of training; None if model or sequence length are not known."""
        if self.model is None or not self.seq_length or self.unknown_options:
            return None
        return flops_per_token(self.model, self.seq_length, task=self.task)

    def peak_tflops(self, precision: str) -> float | None:
        """Dense peak of the GPU at ``precision``; None if none is listed."""
        if self.peak is not None and precision == (self.precision or precision):
            return self.peak
        gpu = self._device
        if gpu:
            return gpu.peak_tflops(precision)
        return None

    @property
    def bound(self) -> "Setting":
        """The setting on the fastest listed GPU, if its own is unknown: no speed exceeds
        that one's peak.
        """
        if self.gpu or self.hardware or self.peak:
            return self
        each = [self]
        for name in hardware.names():
            each.append(replace(self, gpu=name))
        return max(each, key=lambda on: on.peak_tflops(on.fastest_precision or "bf16") or 0.0)

    @property
    def fastest_precision(self) -> str | None:
        """The precision whose peak no speed exceeds: the stated one, else the fastest
        one that it may be.
        """
        if self.precision and self.peak_tflops(self.precision):
            return self.precision
        possible = POSSIBLE.get(self.precision, PEAKED)
        peaks = {each: self.peak_tflops(each) or 0.0 for each in possible}
        fastest = max(peaks, key=lambda each: peaks[each])
        if peaks[fastest]:
            return fastest
        return None

    @property
    def _device(self) -> Device | None:
        return self.hardware or (hardware.gpu(self.gpu) if self.gpu else None)


def setting_of(spec: RunSpec) -> Setting:
    """The setting that a run was launched with; without a training there is no model."""
    unlisted = hardware.site_gpu(spec.cluster) if spec.cluster.hardware else None
    setting = Setting(
        num_gpus=spec.num_gpus, gpu=spec.gpu, precision=spec.precision, hardware=unlisted
    )
    if isinstance(spec, CommandSpec):
        return replace(setting, seq_length=spec.seq_length, gbs=spec.gbs, model=spec.model)
    if not isinstance(spec, TrainingSpec):
        return replace(setting, num_prompts=getattr(spec, "num_prompts", None))
    return replace(
        setting, seq_length=spec.seq_length, gbs=spec.gbs, model=spec.model, task=spec.task
    )


def setting_of_log(log: Log, given: Setting) -> Setting:
    """Facts that the log states, completed by ``given``, and then by what follows from
    other facts of the log.
    """
    setting = stated_setting(log, given)
    guesses = {}
    for name, guess in log.facts.derived.items():
        if guess.value is not None and (getattr(setting, name) is None or name in given.derived):
            guesses[name] = guess
    values = {name: guess.value for name, guess in guesses.items()}
    reasons = {name: guess.reason for name, guess in guesses.items()}
    return replace(setting, **values, derived=reasons)  # type: ignore[arg-type]


def stated_setting(log: Log, given: Setting) -> Setting:
    """Facts that the log states, completed by ``given``.

    A batch printed with the steps wins over one in the header, the last one if it grows.
    """
    facts = log.facts
    if log.launched:
        given = replace(given, model=log.launched.model)
    batches, spans = log.steps.batches()
    printed = batches[(batches > 0) & (~spans | spans.all())][-1:].tolist()
    values = {
        "seq_length": log.actual_seq_length or facts.seq_length,
        "gbs": round(printed[0]) if printed else facts.gbs,
        "num_gpus": facts.num_gpus,
        # An unlisted device keeps the driver's name and has no peak.
        "gpu": "CPU"
        if facts.device == "cpu"
        else hardware.name_of(facts.device or "") or facts.device,
        "precision": facts.precision,
        "task": facts.task if facts.task in get_args(Task) else None,
        "model": _model(shape(facts, given.model), given),
        "fixed_length": False if log.post_training or _varies(log, given) else None,
    }
    refuted = {name for name, guess in facts.derived.items() if guess.refuted}
    stated = {}
    for name, value in values.items():
        if value is not None and name not in refuted:
            stated[name] = value
    completed = replace(given, **stated)  # type: ignore[arg-type]
    ranks = completed.num_gpus or (
        facts.derived["num_gpus"].value if "num_gpus" in facts.derived else None
    )
    options = {**untrained(facts, completed.model, ranks), **unknown_options(facts, given.model)}
    unknown = sorted(options.items())
    completed = replace(
        completed, unknown_options=tuple(f"{name} {value}" for name, value in unknown)
    )
    if log.post_training or unknown:
        return replace(completed, model=None)
    return completed


def _varies(log: Log, given: Setting) -> bool:
    """Whether the samples may be shorter than stated: the log says so, and counts their
    tokens or nobody else does.
    """
    counted = "tokens" in log.quantities or (log.steps.column("tokens_per_s_per_gpu") > 0).any()
    typed = given.seq_length is not None and "seq_length" not in given.derived
    return bool(log.facts.variable_length and (counted or not typed))


def same_chip(one: str, other: str) -> bool:
    """Whether two cards differ in their memory alone."""
    first, second = hardware.gpu(one), hardware.gpu(other)
    same_name = hardware.chip(one) == hardware.chip(other)
    return bool(
        same_name and first and second and first.peak_bf16_tflops == second.peak_bf16_tflops
    )


def _model(logged: ModelShape | None, given: Setting) -> ModelShape | None:
    """The given model if the log's is the same one, since its vocabulary is not padded;
    else the log's.
    """
    if logged is None or given.model is None:
        return logged or given.model
    same = abs(logged.params_active / given.model.params_active - 1) < SAME_MODEL
    named = ("num_layers", "mla", "window", "mtp_layers")
    same = same and all(getattr(logged, name) == getattr(given.model, name) for name in named)
    if same:
        return given.model
    return logged


def logged_dimensions(log: Log) -> Facts:
    """The facts of ``log``, completed by the model that its job stated."""
    facts = replace(log.facts)
    if log.launched:
        facts.fill(dimensions(log.launched))
    return facts


def as_trained(model: ModelShape, log: Log) -> ModelShape:
    """`as_logged` of a log. UserError too if it states a whole model without experts,
    and ``model`` has some.
    """
    facts = logged_dimensions(log)
    whole = shape(facts, model)
    if whole is not None and whole.moe is None and model.moe is not None:
        raise UserError("the log's model has no experts, the recipe's has", where=log.file)
    return as_logged(model, facts, log.file)


def as_logged(model: ModelShape, facts: Facts, file: str | None = None) -> ModelShape:
    """``model`` with the log's number of layers, widths of MLP and head, experts: it
    may be a proxy.

    A padded vocabulary counts as the model's own. UserError for the log (``file``) of
    another kind of model.
    """
    for name in ("hidden_size", "num_attention_heads", "gated"):
        logged, expected = getattr(facts.shape or facts, name), getattr(model, name)
        if logged not in (None, expected):
            where = facts.place(name, file)
            raise UserError(
                f"the log's model has {name} {logged}, the recipe's has {expected}", where=where
            )
    if model.moe is None and (facts.num_experts or 1) > 1:
        raise UserError(
            f"the log's model has {facts.num_experts} experts, the recipe's has none", where=file
        )
    parts = parts_of(facts)
    for name, part in parts.model.items():
        if getattr(model, name) != part:
            raise UserError(
                f"the log's model has {name} {_text(part)}, the recipe's has {_text(getattr(model, name))}",
                where=file,
            )
    for name, value in parts.unknown.items():
        if name in FIELDS and not getattr(model, FIELDS[name]):
            raise UserError(
                f"the log's model has {name} {value}, the recipe's has none", where=file
            )
    padding = (facts.vocab_size or 0) - model.vocab_size
    sizes: dict[str, object] = {
        "num_layers": facts.num_layers,
        "num_query_groups": facts.num_attention_heads
        if facts.grouped is False
        else facts.num_query_groups,
        "kv_channels": facts.kv_channels,
        "vocab_size": None
        if 0 <= padding < VOCAB_MULTIPLE * (facts.tp or MOST_TP)
        else facts.vocab_size,
    }
    if model.moe:
        inner = facts.moe_ffn_hidden_size or facts.ffn_hidden_size
        experts = {"num_experts": facts.num_experts, "topk": facts.topk, "ffn_hidden_size": inner}
        sizes["moe"] = model.moe.model_copy(
            update={name: size for name, size in experts.items() if size} | parts.moe
        )
    else:
        sizes["ffn_hidden_size"] = facts.ffn_hidden_size
    return model.model_copy(update={name: value for name, value in sizes.items() if value})


def shape(facts: Facts, given: ModelShape | None = None) -> ModelShape | None:
    """The model, if the log states every dimension that our FLOPs count needs and no
    part that it lacks.

    Where the log has no line about gates, ``given`` decides, and without it the
    program's default.
    """
    if facts.shape:
        return facts.shape
    layers, hidden, heads, vocabulary = (
        facts.num_layers,
        facts.hidden_size,
        facts.num_attention_heads,
        facts.vocab_size,
    )
    gates = (facts.gated, given.gated if given else None, facts.gated_default)
    gated = next((value for value in gates if value is not None), None)
    inner = (facts.num_experts and facts.moe_ffn_hidden_size) or facts.ffn_hidden_size
    routed = bool(facts.topk) or not facts.num_experts
    parts = parts_of(facts)
    if (
        parts.unknown
        or gated is None
        or not (layers and hidden and heads and vocabulary and inner and routed)
    ):
        return None
    experts = {"num_experts": facts.num_experts, "topk": facts.topk, "ffn_hidden_size": inner}
    stated = ModelShape(
        num_layers=layers,
        hidden_size=hidden,
        ffn_hidden_size=facts.ffn_hidden_size or inner,
        num_attention_heads=heads,
        num_query_groups=heads,
        kv_channels=max(hidden // heads, 1),
        vocab_size=vocabulary,
        max_position_embeddings=facts.seq_length or 1,
        activation="swiglu" if gated else "gelu",
        moe=Moe.model_validate(experts) if facts.num_experts else None,
        **{name: part for name, part in parts.model.items() if part},
    )
    return as_logged(stated, facts)


def _text(part: object) -> str:
    if part in (None, 0):
        return "none"
    return str(part)
