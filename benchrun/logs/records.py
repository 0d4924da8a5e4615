"""The content of a log as plain records, the same for every dialect; None is what a log
does not print.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from .numerals import fact_of
from .precision import is_used, precision_of
from .rows import Rows

if TYPE_CHECKING:
    from benchrun.model import ModelShape
    from benchrun.runspec.launched import Launched

    from .serving import Served


class Problem(NamedTuple):
    """Something in a log that the user must see beside the numbers."""

    kind: str
    line: int | None
    """Line in ``source``, from 1; None if something is missing."""
    detail: str
    source: str | None = None
    """Name of the file, if several were read."""
    host: str | None = None
    rank: int | None = None
    then: Literal["", "steps", "restart"] = ""
    """Events that follow in the log: more steps, or a restart and more steps; also
    "steps" if no process ended.
    """
    role: str = ""
    """Reporter of the problem, one of kinds.ROLES; empty for the usual one of its kind.
    """


class Pause(NamedTuple):
    """Time between two steps that is no part of a step."""

    work: str
    """The word checkpoint (begun), saved checkpoint, evaluation or restart."""
    after: int
    """Number of the step before it."""
    seconds: float
    """Duration by the dates of the log; NaN if it has none."""


class Derived(NamedTuple):
    """A fact that no line states."""

    value: int | None
    reason: str
    """The stated numbers it follows from, and what else may be true."""
    refuted: bool = False
    """The log states another value and refutes it. Without a ``value`` the right one is
    unknown.
    """


@dataclass
class Facts:
    """Properties of the run that its log prints. A field is None if no line states it."""

    framework_version: str | None = None
    recipe: str | None = None
    """Name of the recipe of a job that benchrun launched."""
    seq_length: int | None = None
    gbs: int | None = None
    mbs: int | None = None
    num_gpus: int | None = None
    tp: int | None = None
    pp: int | None = None
    cp: int | None = None
    dp: int | None = None
    """Data-parallel ranks, by the framework's own count."""
    vp: int | None = None
    ep: int | None = None
    planned_steps: int | None = None
    precision: str | None = None
    task: str | None = None
    device: str | None = None
    other_device: str | None = None
    """Another GPU that the same listing has."""
    num_layers: int | None = None
    hidden_size: int | None = None
    ffn_hidden_size: int | None = None
    num_attention_heads: int | None = None
    num_query_groups: int | None = None
    kv_channels: int | None = None
    vocab_size: int | None = None
    gated: bool | None = None
    gated_default: bool | None = None
    """The program's default if its log has no line about gates."""
    grouped: bool | None = None
    """False if ``num_query_groups`` is printed but not used."""
    options: dict[str, str] | None = None
    """Arguments that the dimensions here do not describe, with their values: of a part
    of the model, in use or not, and those that change the work of a step and are not
    understood.
    """
    switches: dict[str, str] | None = None
    """Settings that decide the precision of products, by name; ``precision`` follows
    from all of them.
    """
    variable_length: bool | None = None
    """``seq_length`` is a limit, not what every sample has."""
    num_experts: int | None = None
    topk: int | None = None
    moe_ffn_hidden_size: int | None = None
    shape: "ModelShape | None" = None
    """The whole model, if one line states it."""
    num_epochs: int | None = None
    num_examples: int | None = None
    """Samples of an epoch."""
    accumulation_steps: int | None = None
    """Micro-batches of a rank whose gradients are added up for one step."""
    trainable_params: int | None = None
    """Parameters that are trained, if the log states their number."""
    run_time_s: float | None = None
    """Duration of the whole training as printed: with start-up, evaluation and
    checkpoints.
    """
    ended_at: float | None = None
    """Time after the last step, in s since 1970."""
    peak_memory_gib: float | None = None
    """Largest memory of the process that prints: allocated on its GPU, or resident on a
    CPU.
    """
    derived: dict[str, Derived] = field(default_factory=dict)
    """Name of a fact -> a guess at it from other facts. Whatever the log or the caller
    states wins over it.
    """
    lines: dict[str, tuple[str | None, int]] = field(default_factory=dict, compare=False)
    """Name of a fact -> file, if several were read, and number of the line that states
    it.
    """

    def fill(self, other: "Facts") -> None:
        """Take the fields that are None here from ``other``."""
        for name, value in vars(other).items():
            if getattr(self, name) is None:
                setattr(self, name, value)
                if name in other.lines:
                    self.lines = {**self.lines, name: other.lines[name]}
        self.derived = {**other.derived, **self.derived}

    def take(self, name: str, value: int | None) -> None:
        """Take a whole number; a fact stays where ``value`` is beyond what any run has."""
        setattr(self, name, fact_of(name, value) or getattr(self, name))

    def add_options(self, stated: Mapping[str, str]) -> None:
        """Take arguments that change the work; the last value of a name counts."""
        self.options = {**(self.options or {}), **stated}

    def note_line(self, before: Mapping[str, Any], source: str | None, number: int) -> None:
        """Note the line that states each fact which is another one than ``before``."""
        changed = []
        for name, value in vars(self).items():
            if value is not before[name]:
                changed.append(name)
        self.lines |= dict.fromkeys(changed, (source, number))

    def place(self, name: str, file: str | None) -> str | None:
        """``FILE:LINE`` where the fact is stated; ``file``, the log, if no single line
        does.
        """
        source, line = self.lines.get(name, (None, None))
        if line:
            return f"{source or file}:{line}"
        return file

    def derive(self, name: str, value: int | None, reason: str, *, refuted: bool = False) -> None:
        """Guess a fact that no line states, or that the log ``refuted``. The last guess
        counts.
        """
        self.derived[name] = Derived(value, reason, refuted)

    def contradict(self, other: "Facts") -> bool:
        """Whether both state some fact, and not the same."""
        pairs = (
            (vars(self)[name], value)
            for name, value in vars(other).items()
            if name not in _NOT_COMPARED
        )
        shared = {*(self.options or {})} & {*(other.options or {})}
        if any((self.options or {})[name] != (other.options or {})[name] for name in shared):
            return True
        return any(None not in pair and pair[0] != pair[1] for pair in pairs)

    @property
    def used(self) -> set[str]:
        """Names of the options that are in use."""
        chosen = set()
        for name, value in (self.options or {}).items():
            if is_used(value):
                chosen.add(name)
        return chosen

    def switch(self, name: str, value: str) -> None:
        """Take a statement about the precision; one that turns it on outweighs one that
        does not.
        """
        self.switches = self.switches or {}
        if is_used(value) or name not in self.switches:
            self.switches[name] = value
        self.precision = precision_of(self.switches) or self.precision


FROZEN = "frozen parameters"
"""The option of a run that does not train all weights: their number, or a word for it.
"""
TEXTS = frozenset({"framework_version", "recipe", "precision", "task", "device"})
"""Facts that are text; the others are whole numbers, or true or false."""
_OF_EACH_PROCESS = frozenset({"run_time_s", "ended_at", "peak_memory_gib", "derived", "lines"})
"""Facts that each process of a run measures by itself, or guesses."""
_NOT_COMPARED = _OF_EACH_PROCESS | {"options", "switches"}


TOKENS_PER_S = "tokens_per_second"
"""The quantity of a step that is its printed rate of tokens, of all GPUs."""
SOME_TOKENS_PER_S, BATCH_TOKENS = "some_tokens_per_second", "batch_tokens"
"""A printed rate of all GPUs or of one, which the line does not say; the tokens of a batch."""
CONSUMED_TOKENS, LABEL_TOKENS = "consumed_tokens", "label_tokens"
"""Tokens of all steps so far; those of a batch that have a label."""
OTHER_LENGTH = "samples of another length"
"""Other work of a step that has fewer or more tokens than its batch and the run's last
length.
"""
CHECKS = frozenset({SOME_TOKENS_PER_S, BATCH_TOKENS, CONSUMED_TOKENS, LABEL_TOKENS})
"""Quantities that other numbers are held against, and that are no results."""


class Counted(NamedTuple):
    """Samples of a step as the summary of a whole run counts them."""

    samples: float
    missing: float
    """Share of the batch that the last steps of epochs may lack."""
    error: float


@dataclass(eq=False, kw_only=True)
class Traits:
    """Traits of a log: what a dialect knows of its framework, or finds out of a run."""

    first_number: int = 1
    """The number of a run's very first step: 0 or 1, as the framework counts."""
    step_unit: int = 1
    """What the number of a step rises by in each: more if it counts tokens; 0 if that is
    not known.
    """
    only_average: bool = False
    """The log gives one time for the whole run: there is no spread, and start-up is in
    it.
    """
    reached: int | None = None
    """The last step that was made, if something other than a row shows it."""
    unread: int = 0
    """Rows left out because their time is not a number that a step may take."""
    whole_seconds: bool = False
    """The times are differences of a clock that shows whole seconds."""
    one_rank_prints: bool = False
    """Each step is printed once, by one rank: two logs of one run have the very same
    times.
    """
    may_skip: bool = False
    """Steps without a row, or rows without a loss, mean nothing: not each step is
    printed.
    """
    shows_end: bool = False
    """The log of a whole run shows its last step, whatever the distance of its rows."""
    varying_length: bool = False
    """The samples may have any length: a short step is no mistake."""
    post_training: bool = False
    """A step makes responses and trains on them: its batch does not give its tokens,
    nor a model its FLOPs.
    """
    placeholder_loss: bool = False
    """A rank whose pipeline stage computes no loss prints one all the same, which never
    changes.
    """
    loss_digits: int = 0
    """Significant digits of the loss as printed; 0 if they are not known."""
    fallback_peak_tflops: float | None = None
    """Peak over which the framework prints its MFU on a GPU that it does not know."""
    printed_conventions: tuple[str, ...] = ()
    """FLOPs conventions that the framework may print, for any model (names of
    measure/convention.py).
    """
    results: dict[str, float] = field(default_factory=dict)
    """Named results beside the steps."""
    quantities: dict[str, dict[int, float]] = field(default_factory=dict)
    """Other quantities of a step: quantity -> number of the step -> value."""
    other_work: dict[int, str] = field(default_factory=dict)
    """Number of a step -> what its time contains that is no part of a step: a
    validation, a checkpoint.
    """
    actual_seq_length: int | None = None
    """Tokens of a sample in the last step, if steps state them: a curriculum begins
    with short ones.
    """
    ended: bool = False
    """The log says that all work is done."""
    unfinished: bool = False
    """The log says that the run began, and not that it ended."""
    counted: Counted | None = None
    contradictions: list[str] = field(default_factory=list)
    """Rates and times that the log prints beside each other and that cannot all be true."""
    served: "list[Served]" = field(default_factory=list)
    """Results of benchmarks of a server, in order; `results` are those of the last one.
    """


@dataclass(eq=False)
class Log(Traits):
    """A whole log."""

    file: str
    framework: str
    steps: Rows = field(default_factory=Rows)
    facts: Facts = field(default_factory=Facts)
    problems: tuple[Problem, ...] = ()
    skip_messages: int = 0
    """Steps without an update by messages or a count, not by rows."""
    began: float | None = None
    """Date of the first step line, in s since 1970 in the log's own time zone."""
    dated_s: dict[int, tuple[float, float]] = field(default_factory=dict)
    """Number of a step -> least and most seconds a step by the dates that the program
    printed.
    """
    pauses: tuple[Pause, ...] = ()
    """Checkpoints, evaluations and restarts between steps."""
    launched: "Launched | None" = None
    """Facts that the job stated before it started the framework."""
    profiled_after: int | None = None
    """The number of measured steps, if others were profiled after them: these are left
    out.
    """

    def complete(self, planned_steps: int | None) -> bool:
        """Whether the run is over as planned: `done`, or what is missing is less than
        what a row stands for.
        """
        if self.done(planned_steps):
            return True
        intervals = self.steps.column("interval")[-2:]
        if planned_steps is None or not len(intervals) or self.shows_end:
            return False
        return bool(planned_steps - self.steps_made < intervals.max())

    def done(self, planned_steps: int | None) -> bool:
        """Whether the log contains the last of ``planned_steps``, or its program says
        that all work is done.

        Of served requests, whether it has all results.
        """
        if not len(self.steps):
            if self.served:
                return self.served[-1].whole is not False
            return self.ended
        return self.ended or (planned_steps is not None and self.steps_made >= planned_steps)

    @property
    def symptoms(self) -> dict[str, str]:
        """Words of the first problem of each kind."""
        return {problem.kind: problem.detail for problem in reversed(self.problems)}

    @property
    def steps_made(self) -> int:
        """Steps of the run up to the last one in the log, or all that were planned if
        it says so; 0 without a step.
        """
        last = self.steps.last_step
        if last is not None and self.ended and self.planned_steps:
            return self.planned_steps
        if last is None:
            return 0
        return max(last, self.reached or 0) + 1 - self.first_number

    @property
    def segments(self) -> int:
        """Number of starts, with restarts; 0 without a step."""
        return self.steps.segments

    @property
    def distinct(self) -> Rows:
        """One row per step number: the work that counts."""
        return self.steps.distinct()

    @property
    def planned_steps(self) -> int | None:
        """Planned number of steps."""
        return self.facts.planned_steps
