"""Megatron-LM's step line, of every version since 2020, and what its forks print the
same way.

    iteration      339/     500 | consumed samples:  27120 | elapsed time per iteration (ms): 3237.3 | ... |

Fields come and go between versions and change their order; a field whose mean is not
positive is absent. The time is a mean over the steps since the previous line. Source of
the forms: NVIDIA/Megatron-LM megatron/training/training.py (training_log) from v1.0 to
core 0.19.
"""

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np

from benchrun.frameworks.lightning.facts import LORA
from benchrun.frameworks.options import is_off, names, take_option
from benchrun.logs.columns import NO_VALUE
from benchrun.logs.dialect import (
    COUNT,
    DECIMAL,
    NUMBER,
    THOUSANDTHS,
    Dialect,
    Reading,
    Record,
    Value,
    columns,
    groups,
)
from benchrun.logs.lines import Line
from benchrun.logs.numerals import FEW, PAYLOAD, count, fact_of, number
from benchrun.logs.precision import SWITCHES
from benchrun.logs.records import CONSUMED_TOKENS, OTHER_LENGTH, SOME_TOKENS_PER_S
from benchrun.logs.rows import Rows

# ``current``, ``current/average`` and ``current (avg average)``, with a unit in
# GPT-NeoX.
_CURRENT = re.compile(rf"([^\s/(]+?(?:{PAYLOAD})?)(?:TFLOPS)?\s*(?:/([^/(]+)|\(avg ([^/()]+)\))?")
_EXPONENT = Reading(pattern=r"\d\.\d{1,15}E[-+]\d\d")
_WHOLE = re.compile(rf"\|[\w ]{{1,40}}: *({_EXPONENT.pattern})\s*$")
"""The last value of a line without the bar that closes it: it may be cut, unless it has
a whole exponent.
"""
_ARGUMENT = re.compile(
    r"(?<!\w)(\w{1,80}) (\.{4,80}) (\S.{0,600}?)(?:(?:\.{2,80}|(?<=[\])}'\"]))(?:updated|default))?"
    r"(?=\s*$|\s+\w{1,80} \.{4,80} )"
)
_WIDTHS = (29, 32)
"""Letters and dots of an argument in GPT-NeoX and its forks; all others have 40 and
more.
"""

# Primus, with blanks: [20260914 08:10:12][rank-15/16][INFO ] [--module_utils.py:251] : seq_length : 8192
_PRIMUS = re.compile(r"\]\[rank-\d{1,7}/(?P<num_gpus>\d{1,7})\]")
_ALIGNED = re.compile(r"\] ?: +(\w{1,80}) +: (\S.{0,600}?)\s*$")

STEP_TIME = re.compile(
    r"Step Time\s*:\s*(?P<step_time_s>\d+\.?\d*)s\s+"
    r"GPU utilization:\s*(?P<tflops_per_gpu>\d+\.?\d*|nan|inf)\s*(?:MODEL_)?TFLOP/s/GPU"
)
"""Megatron-Bridge's line of rank 0, before or after the step line of the last rank."""
SAME_TIME = 0.02
"""Relative distance of the times in both lines."""
LAST_DIGIT_S = 0.01

LAYOUT = {
    "tensor_model_parallel_size": "tp",
    "pipeline_model_parallel_size": "pp",
    "context_parallel_size": "cp",
    "virtual_pipeline_model_parallel_size": "vp",
    "expert_model_parallel_size": "ep",
}
"""Megatron-core's names of the degrees, in every framework on it."""
_SAME = (
    "seq_length",
    "num_layers",
    "hidden_size",
    "ffn_hidden_size",
    "num_attention_heads",
    "num_query_groups",
    "kv_channels",
    "num_experts",
    "moe_ffn_hidden_size",
)
_ARGUMENTS = {
    **dict(zip(_SAME, _SAME, strict=True)),
    "global_batch_size": "gbs",
    "micro_batch_size": "mbs",
    "world_size": "num_gpus",
    **LAYOUT,
    "padded_vocab_size": "vocab_size",
    "moe_router_topk": "topk",
    "train_iters": "planned_steps",
    "num_key_value_heads": "num_query_groups",
    "topk": "topk",
    # GPT-NeoX
    "train_batch_size": "gbs",
    "global_num_gpus": "num_gpus",
    "pipe_parallel_size": "pp",
    "num_kv_heads": "num_query_groups",
    "intermediate_size": "ffn_hidden_size",
    "moe_num_experts": "num_experts",
    "moe_top_k": "topk",
}
_GATES = frozenset({"swiglu", "geglu", "glu_activation", "gated_linear_unit", "quick_geglu"})
_DENSE = 1
"""Experts of a model without any, in Megatron-DeepSpeed and GPT-NeoX."""
DONE = "[after training is done]"
"""Line after the last step, which prints no step line unless it is a multiple of the
log interval.
"""
FAMILY = "megatron"
"""The rows of options.csv."""
_NARROWEST = 40
_INSTALLED = re.compile(r"\.{2,80} \[(?:NO|YES|OKAY|FAIL)\]")
NAMED = dict.fromkeys((*_ARGUMENTS, *names(FAMILY, "understood", "part", "work")))
"""Arguments that are looked for one by one, however they are aligned."""

_LENGTH = "sequence length"
"""Name of the tokens of a row's samples, in Megatron-DeepSpeed's curriculum; they are
no column of a row.
"""
_CORE = "throughput per GPU (TFLOP/s/GPU)"
"""The TFLOPS of Megatron-core, which counts the model alone; forks that count by
themselves have another name.
"""
_DATED = re.compile(r"\d\d:\d\d:\d\d\] iteration ")
"""Begin of a step line since Megatron-core 0.7."""
_RECOMPUTE = frozenset({"checkpoint_activations", "recompute_activations", "recompute_granularity"})
_FEW = Reading(count, r"\d{1,15}", scale=lambda value: np.minimum(value, FEW))
_NAMES = {
    "elapsed time per iteration (ms)": ("step_time_s", THOUSANDTHS),
    "elapsed time per iteration ms": ("step_time_s", THOUSANDTHS),
    "elapsed time per iteration (s)": ("step_time_s", NUMBER),
    **dict.fromkeys(
        ("lm loss", "loss", "lm_loss", "lm-loss", "reduced_train_loss"), ("loss", NUMBER)
    ),
    "grad norm": ("grad_norm", NUMBER),
    "global batch size": ("global_batch_size", COUNT),
    _CORE: ("tflops_per_gpu", NUMBER),
    "compute per GPU (TFLOP/s/GPU)": ("tflops_per_gpu", NUMBER),
    **dict.fromkeys(("TFLOPs", "approx flops per GPU"), ("tflops_per_gpu", NUMBER)),
    "tokens/s/GPU inst/harmonic mean": ("tokens_per_s_per_gpu", NUMBER),
    "TGS": ("tokens_per_s_per_gpu", NUMBER),
    **dict.fromkeys(("samples per second", "samples/sec"), ("samples_per_s", NUMBER)),
    "actual seqlen": (_LENGTH, COUNT),
    "consumed tokens": (CONSUMED_TOKENS, COUNT),
    "consumed samples": ("consumed_samples", COUNT),
    "number of skipped iterations": ("skipped", _FEW),
    "number of nan iterations": ("nan", _FEW),
}
# Every fork has a name of its own for a rate of one GPU, and all of them spell its
# unit.
_UNITS = {
    "tokens_per_s_per_gpu": re.compile(r"\btok(?:en)?s?/(?:s/[gn]pu|[gn]pu/s)\b"),
    "tflops_per_gpu": re.compile(r"\btflops?(?:/s)?/[gn]pu\b"),
    SOME_TOKENS_PER_S: re.compile(r"\btok(?:en)?s?/s$"),
}
_OTHER_RATE = re.compile(
    r"\b(?:avg|average|mean|median|max|min|peak|best|job|cumulative|hardware|hw|hfu)\b"
)


@lru_cache(1 << 10)
def _rate(name: str) -> str | None:
    """The column of a rate whose unit ``name`` spells: "Tokens per second per GPU",
    "throughput (token/sec/GPU)".
    """
    unit = re.sub(
        r"\b(?:sec|second)\b",
        "s",
        re.sub(r" ?(?:\bper\b|/) ?", "/", re.sub("[_-]", " ", name.lower())),
    )
    return next(
        (
            column
            for column, form in _UNITS.items()
            if form.search(unit) and not _OTHER_RATE.search(unit)
        ),
        None,
    )


class Megatron(Dialect):
    """Megatron-LM, Megatron-DeepSpeed and their forks."""

    name = "megatron-lm"
    step_needles: ClassVar[tuple[bytes, ...]] = (
        b"elapsed time per iteration (",
        b"elapsed_time_per_iteration_ms=",
        b"[after training is done]",
        b"Step Time : ",
    )
    end_words = "[after training is done]"
    fact_needles: ClassVar[tuple[bytes, ...]] = (
        b" ..........",
        *(f"{name} {sign * 4}".ljust(11, sign).encode() for name in NAMED for sign in ". "),
        b"using world size:",
        b"> padded vocab (size:",
        LORA.encode(),
    )
    closing: ClassVar[tuple[str, ...]] = ("|",)
    one_rank_prints = True
    averages = ("rows",)
    head = re.compile(
        r"\biteration\s+(?P<step>\d{1,15})\s*/\s*(?:(?P<planned_steps>\d{1,15})|infinity)\s*\|"
    )
    separator = "|"
    names = _NAMES
    # The forks that also count what is recomputed print its step lines.
    printed_conventions: tuple[str, ...] = (
        "full",
        "causal",
        "full_with_recompute",
        "full_with_recomputed_scores",
        "causal_unwindowed",
        "megatron_0.5",
        "megatron_deepspeed",
        "megatron_deepspeed_with_recompute",
        "megatron_deepspeed_grouped",
        "megatron_deepspeed_grouped_with_recompute",
    )
    fact_groups: ClassVar[tuple[re.Pattern[str], ...]] = (
        re.compile(r"using world size: (?P<num_gpus>\d{1,9})\b"),
        re.compile(r"> padded vocab \(size: (?P<vocab_size>\d{1,9})\)"),
    )
    fact_names = _ARGUMENTS

    def __init__(self) -> None:
        super().__init__()
        self._unnumbered = Rows()
        """Rows that rank 0 printed, numbered in order."""
        self._step = 0
        """The number of the last one: where training started, and one more each time.
        """
        self._core = self._dated = False
        self._recompute: dict[str, bool] = {}
        """Arguments that turn recomputation on -> whether they do."""

    def continued(self) -> Dialect:
        """The reader of the run's next file, which knows the arguments."""
        following = super().continued()
        if isinstance(following, Megatron):
            following._recompute = self._recompute
        return following

    def finish(self) -> Rows:
        """The rows, and the conventions that the lines and the arguments leave
        possible.
        """
        impossible = {"megatron_0.5"} if self._dated else set()
        impossible |= {way for way in self.printed_conventions if self._core and _of_forks(way)}
        if self._recompute and not any(self._recompute.values()):
            impossible |= {way for way in self.printed_conventions if "_recompute" in way}
        self.printed_conventions = tuple(
            way for way in self.printed_conventions if way not in impossible
        )
        facts = self.facts
        if facts.num_gpus is None and facts.tp and facts.pp and facts.dp:
            facts.num_gpus = facts.tp * facts.pp * (facts.cp or 1) * facts.dp
        return self._both(super().finish(), self._unnumbered)

    def _both(self, numbered: Rows, timed: Rows) -> Rows:
        """The numbered rows if there are any: they have milliseconds and the loss."""
        if len(numbered) != len(timed):
            if len(numbered):
                return numbered
            return timed
        # Equal numbers of both: they belong together in order.
        own, other = numbered.column("step_time_s"), timed.column("step_time_s")
        rounding = LAST_DIGIT_S / np.median(own) if len(own) else 0
        if len(own) and abs(np.median(other / own) - 1) > SAME_TIME + rounding:
            detail = (
                f"Step Time says {np.median(other):.4g} s, the step lines {np.median(own):.4g} s"
            )
            self.contradictions = [detail]
        own, other = numbered.column("tflops_per_gpu"), timed.column("tflops_per_gpu")
        return numbered.chosen(slice(None), tflops_per_gpu=np.where(own == NO_VALUE, other, own))

    def read(self, line: Line) -> None:
        """A step, or a fact; the ranks of Primus stand before both."""
        super().read(line)
        if self.facts.num_gpus is None and (ranks := _PRIMUS.search(line.text)):
            self.facts.take("num_gpus", int(ranks["num_gpus"]))

    def records(self, text: str) -> Iterator[Record]:
        """Every record of a step line; two ranks may have shared one."""
        if "Step Time" in text:
            for match in STEP_TIME.finditer(text):
                values = groups(match, step_time_s=DECIMAL, tflops_per_gpu=DECIMAL)
                yield Record(values, "_unnumbered")
            return
        if (
            "_per_iteration_ms=" in text
        ):  # a fork of Megatron-DeepSpeed: elapsed_time_per_iteration_ms=3415.3
            text = text.replace("iteration=", "iteration ").translate(
                {ord("="): ":", ord("_"): " "}
            )
        self._dated |= _DATED.search(text) is not None
        whole = _WHOLE.search(text)
        for record in super().records(f"{text}|" if whole else text):
            values = [current for value in record.values if (current := _current(value))]
            if whole:
                values = [
                    v._replace(reading=_EXPONENT) if v.start == whole.start(1) else v
                    for v in values
                ]
            yield record._replace(values=values)

    def named(self, pieces: Mapping[str, Value]) -> list[Value]:
        """The fields, with the rates that only a fork prints."""
        self._core |= _CORE in pieces
        values = columns(pieces, self.names)
        stated = {value.column for value in values}
        rates = {}
        for name, piece in pieces.items():
            if (rate := _rate(name)) and rate not in stated:
                rates[rate] = piece
        return values + [
            piece._replace(column=rate, reading=NUMBER) for rate, piece in rates.items()
        ]

    def complete(self, values: dict[str, Any]) -> None:
        """Count the rows of rank 0; steps whose samples are not as long as the last
        one's are other work.
        """
        if "step" not in values:
            steps = self._step + np.arange(1, np.size(values["line"]) + 1)
            self._step = int(steps[-1])
            values["step"] = steps if np.ndim(values["line"]) else self._step
        if (lengths := values.pop(_LENGTH, None)) is None:
            return
        steps, lengths = np.atleast_1d(values["step"]), np.atleast_1d(lengths)
        for step, length in zip(steps.tolist(), lengths.tolist(), strict=True):
            if self.actual_seq_length not in (None, length):
                self.other_work |= dict.fromkeys(self.rows.column("step").tolist(), OTHER_LENGTH)
                self.other_work |= dict.fromkeys(steps[steps < step].tolist(), OTHER_LENGTH)
            self.actual_seq_length = int(length)

    def read_facts(self, text: str) -> None:
        """A line of the argument dump."""
        if "[config.py" in text:
            return  # DeepSpeed's own dump: its world_size is the data-parallel one
        if _PRIMUS.search(text) and (aligned := _ALIGNED.search(text)):
            text = " .... ".join(aligned.groups())
        super().read_facts(text)
        if LORA in text:  # Megatron-Bridge, if only the last rank's lines are at hand
            self.facts.task = "lora"
        if _INSTALLED.search(text):
            return  # DeepSpeed's report of what it can compile
        for name, dots, value in _ARGUMENT.findall(text):
            width = len(name) + len(dots)
            if name in NAMED or width in _WIDTHS or width >= _NARROWEST:
                self.argument(name, value.rstrip())

    def argument(self, name: str, value: str) -> None:
        """Take one argument of the program."""
        facts = self.facts
        if name == "data_parallel_size":
            facts.take("dp", count(value))
        elif name == "decrease_batch_size_if_needed" and not is_off(value):
            facts.dp = None  # the batch need not fit the ranks
        elif name in _RECOMPUTE:
            self._recompute[name] = not is_off(value)
        if field := self.fact_names.get(name):
            self._size(field, value)
        elif name in _GATES:
            facts.gated = facts.gated or not is_off(value)
        elif name in ("activation", "mlp_type"):
            facts.gated = facts.gated or "glu" in value or value == "llama"
        elif name == "group_query_attention":
            facts.grouped = not is_off(value)
        elif name in SWITCHES:
            facts.switch(name, value)
        take_option(FAMILY, name, value, facts)
        if facts.num_layers:
            facts.gated_default = False

    def _size(self, field: str, value: str) -> None:
        size = value.strip("[]")  # Megatron-DeepSpeed lists the experts of each stage
        fact = fact_of(field, count(size)) if size.isdigit() else None
        if fact and (field, fact) != ("num_experts", _DENSE):
            setattr(self.facts, field, fact)


def _of_forks(convention: str) -> bool:
    """Whether Megatron-LM itself never counts so."""
    return "_recompute" in convention or convention.startswith("megatron_deepspeed")


def _current(value: Value) -> Value | None:
    """The current one of ``current/average``; None if the text is no number."""
    if value.reading not in (NUMBER, THOUSANDTHS):
        return value
    both = _CURRENT.fullmatch(value.text)
    if both is None or any(average and number(average) is None for average in both.groups()[1:]):
        return None
    return value._replace(text=both[1])
