"""Lines of a Hugging Face Trainer: its dictionaries and progress bars, as records.

Programs add fields to the dictionaries: ms-swift its own counters, LLaMA-Factory and
Axolotl rates, trl's reinforcement learning rewards and lengths. Two forms of one record
may follow each other.
"""

import re
from collections.abc import Iterator

from benchrun.logs.dialect import COUNT, NUMBER, STATED_LOSS, Reading, Record, Value, groups
from benchrun.logs.numerals import number, positive, seconds

DICTIONARY = re.compile(
    r"\{[^{}]{0,4000}?['\"](?:loss|train_runtime|eval_(?:\w{1,80}_)?(?:loss|runtime))['\"]\s*:[^{}]*\}"
)
EVALUATED = re.compile(r"eval_(?:\w+_)?runtime")
"""The seconds of an evaluation, of one data set or of several."""
_PAIR = re.compile(r"['\"]([^'\"]+)['\"]\s*:\s*(?:'([^']*)'|\"([^\"]*)\"|([^,{}'\"]+))")
# A notebook's cell leaves the picture out.
_BAR = re.compile(
    r"(?<!\d)\d{1,3}%(?:\|[^|]*\|)?\s*(?P<step>\d{1,12})/(?P<total>\d{1,12}) \[(?P<clock_s>\d[\d:]*)<"
)
# Nothing but what a launcher writes stands before a training bar: a task, a rank, a
# host, a time, the stream. "Loading checkpoint shards:" is other work.
_BEFORE_BAR = re.compile(
    r"(?:^[A-Za-z][\w.-]*/\d+|[\]>]:?|\d:|[)|}]|:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?\s"
    r"|\bstd(?:out|err)(?::| [FP])|\bTrain:)\s*$"
)
_DURATION = re.compile(r"(\d+)([dhms])")
_CLOCK_TIME = re.compile(r"(?:(\d{1,4}) days?, )?(\d{1,5}(?::\d{1,2})+)")
_UNIT = {"d": 86400, "h": 3600, "m": 60, "s": 1}
_READINGS = {"loss": STATED_LOSS}
"""Readings of the values of a step that are no plain numbers."""
LONGEST_LABEL = 80
"""Bytes before a bar that are looked at."""
COLUMNS = {
    "completions/mean_length": "response_tokens",
    "completion_length": "response_tokens",
    "num_input_tokens_seen": "tokens_seen",
    "num_tokens": "tokens_seen",
    "total_tokens": "tokens_seen",
    "tokens/total": "tokens_seen",
    "tokens_per_second_per_gpu": "tokens_per_s_per_gpu",
    "tokens_per_sec_per_gpu": "tokens_per_s_per_gpu",
    "tokens/train_per_sec_per_gpu": "trained_tokens_per_s_per_gpu",
    "throughput": "mean_tokens_per_s",
    "train_tokens_per_second": "mean_tokens_per_s",
}
"""Field of a dictionary -> column; the first field of a column counts. Tokens that were
seen are those of all ranks.

Axolotl's newer rate counts the tokens of the loss alone: it is not that of the work.
LLaMA-Factory's ``throughput`` and transformers' rate are means of all ranks since the
start.
"""


def _duration(text: str) -> float | None:
    """``1m 60s`` or ``1 day, 0:01:02`` -> seconds."""
    if ":" in text:
        clock = _CLOCK_TIME.fullmatch(text)
        if clock:
            return int(clock[1] or 0) * _UNIT["d"] + float(seconds(clock[2]))
        return None
    values = [int(part[1][:9]) * _UNIT[part[2]] for part in _DURATION.finditer(text)]
    if values:
        return float(sum(values))
    return None


_BAR_CLOCK = Reading(seconds, r"\d[\d:]*", plain=False)
_FINE = Reading(
    lambda text: number(text) if re.fullmatch(r"\d+\.\d{4,}", text) else None, r"\d+\.\d{4,15}"
)
_CLOCK = Reading(_duration, r"[\d:dhmsay, ]+", plain=False)


def bars_on(text: str) -> Iterator[Record]:
    """The bars of a line that may be the training's."""
    for bar in _BAR.finditer(text) if "%" in text else ():
        before = text[max(bar.start() - LONGEST_LABEL, 0) : bar.start()]
        if not before.strip() or _BEFORE_BAR.search(before):
            yield Record(groups(bar, total=COUNT, clock_s=_BAR_CLOCK), "_bars", needs=None)


def texts_of(line: str) -> dict[str, str]:
    """The texts of the dictionary on a line."""
    return {name: value.text for name, value in pairs_of(line, DICTIONARY.search(line)).items()}


def pairs_of(text: str, match: re.Match[str] | None) -> dict[str, Value]:
    """The names and values of a dictionary on a line."""
    pairs = {}
    for pair in _PAIR.finditer(text, *match.span()) if match else ():
        group = pair.lastindex or 4
        value = pair[group].strip()
        pairs[pair[1]] = Value(pair[1], value, pair.start(group) + pair[group].index(value))
    return pairs


def record_of(pairs: dict[str, Value]) -> Record:
    """A dictionary of a step."""
    # No row holds the learning rate; it tells two dictionaries apart.
    names = ("loss", "grad_norm", "step_time_s", "epoch", "learning_rate", "reward")
    values = []
    for name in names:
        if name in pairs:
            values.append(pairs[name]._replace(reading=_READINGS.get(name, NUMBER)))
    stated = {COLUMNS[name]: pairs[name] for name in reversed(COLUMNS) if name in pairs}
    values += [value._replace(column=column) for column, value in stated.items()]
    if "train_runtime" in pairs and positive(pairs["train_runtime"].text):
        values.append(pairs["train_runtime"]._replace(column="clock_s"))
    elif "elapsed_time" in pairs:
        values.append(pairs["elapsed_time"]._replace(column="clock_s", reading=_CLOCK))
        if "train_speed(s/it)" in pairs:
            values.append(pairs["train_speed(s/it)"]._replace(column="mean_s"))
    elif "train_speed(s/it)" in pairs and _FINE.parse(pairs["train_speed(s/it)"].text):
        values.append(pairs["train_speed(s/it)"]._replace(column="mean_s", reading=_FINE))
    counters = ("global_step/max_steps", "iteration", "current_steps", "step", "global_step")
    both = next((pairs[name] for name in counters if name in pairs), None)
    if both and both.text:
        step, slash, planned = both.text.partition("/")
        values.append(Value("step", step, both.start, COUNT))
        if slash:
            values.append(Value("planned_steps", planned, both.start + len(step) + 1, COUNT))
        elif "total_steps" in pairs:
            values.append(pairs["total_steps"]._replace(column="planned_steps", reading=COUNT))
    return Record(values, "_dictionaries", needs=None)


def same_record(one: dict[str, str], other: dict[str, str]) -> bool:
    """Whether two dictionaries in a row are one: several launchers print it, and some
    loggers in two forms.

    The forms round differently, and have other fields; what both have must agree to
    three digits.
    """
    common = one.keys() & other.keys()
    forms = one.keys() != other.keys() and {"loss", "epoch", "learning_rate"} <= common
    return one == other or (
        forms and all(_digits(one[name]) == _digits(other[name]) for name in common)
    )


def _digits(text: str) -> str:
    """Three digits of a number; any other text as it is."""
    value = number(text)
    if value is None:
        return text
    return f"{value:.2e}"
