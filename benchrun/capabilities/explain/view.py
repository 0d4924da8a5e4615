"""An explanation and a difference as text of at most 100 columns for tables; sentences
follow unwrapped.
"""

from collections.abc import Iterator

from benchrun.judge.difference import Difference
from benchrun.show.table import Table, markdown, plain

from .hung import Hung
from .model import FAULT_SHARE, UNSEPARATED, Against, Cause, Explanation, Stretch

BAR = 24
"""Characters of the whole step."""

SHOWN = 6
"""Stretches of one speed that are listed."""
MOST = 0.5
"""Share of a step that is not separated from which the headline names it."""


def text_of(result: Explanation | Hung, *, page: bool = False) -> str:
    """An explanation, or a hang in one sentence with its evidence."""
    if isinstance(result, Explanation):
        return explanation_text(result, page=page)
    title, item = ("# ", "- ") if page else ("", "  ")
    sentence, lines = "nothing hangs", list(result.missing)
    if result.hang:
        sentence, lines = result.hang.sentence, result.hang.evidence
    evidence = "".join(f"{item}{line}\n" for line in lines)
    return f"{title}{result.run}: {sentence}\n{evidence}"


def explanation_text(result: Explanation, *, page: bool = False) -> str:
    """The largest cause first, then the waterfall, then all causes with advice;
    Markdown for a ``page``.
    """
    return "\n".join(filter(None, _parts(result, page=page)))


def _parts(result: Explanation, *, page: bool) -> Iterator[str]:
    table, title, item = (markdown, "# ", "- ") if page else (plain, "", "")
    yield f"{title}{result.run}: {result.step_time_s:.4g} s a step; {_headline(result)}\n"
    if result.against:
        other = result.against
        yield (
            f"{other.ratio:.3f} times the step of {other.name}, which would take "
            f"{other.step_time_s:.4g} s: medians{interval_text(other)}; {1 / other.ratio:.3f} of its speed\n"
        )
    step_s = result.step_time_s
    until = 0.0
    rows = []
    for part in result.waterfall:
        bar = _bar(until / step_s, (until + part.seconds) / step_s)
        rows.append((part.part, _seconds(part.seconds), _percent(part.seconds / step_s), bar))
        until += part.seconds
    rows.append(("the measured step", _seconds(step_s), _percent(1.0), ""))
    yield table(Table(("part", "s", "%", ""), rows))
    if result.stretches:
        words = list(map(_stretch, result.stretches))
        if len(words) > SHOWN:
            words = [*words[: SHOWN - 1], "...", words[-1]]
        yield f"{item}the speed changes: {'; '.join(words)}\n"
    for number, cause in enumerate(result.causes, 1):
        yield "\n".join(_cause(number, cause, result.step_time_s)) + "\n"
    yield "".join(f"{item}note: {each}\n" for each in result.missing)


def _stretch(stretch: Stretch) -> str:
    because = f" ({stretch.cause})" if stretch.cause else ""
    return (
        f"{stretch.step_time_s:.4g} s in steps {stretch.first_step} to {stretch.last_step}{because}"
    )


def _headline(result: Explanation) -> str:
    step_s = result.step_time_s
    parts = result.waterfall
    beyond_least = [part for part in parts if part.cause]
    if not beyond_least and len(parts) > 1:
        largest = max(parts, key=lambda part: part.seconds)
        return f"{_percent(largest.seconds / step_s)} % of it are {largest.part}"
    faults = [cause for cause in result.causes if cause.kind == "fault"]
    if result.against and result.against.longer and faults:
        largest_fault = f"{_where(faults[0])}, {faults[0].evidence}"
        return f"slower than {result.against.name}; the largest difference: {largest_fault}"
    if faults and faults[0].seconds >= FAULT_SHARE * step_s:
        share = _percent(faults[0].seconds / step_s)
        return f"the largest fault: {_where(faults[0])}, {share} %"
    unknown = sum(part.seconds for part in parts if part.part.startswith(UNSEPARATED))
    if unknown >= MOST * step_s:
        return f"{_percent(unknown / step_s)} % of it are not separated, because nothing shows its kernels"
    largest = max(beyond_least, key=lambda part: part.seconds)
    share = _percent(largest.seconds / step_s)
    return f"no fault of {100 * FAULT_SHARE:.0f} % or more; most beyond the least: {largest.part}, {share} %"


def _cause(number: int, cause: Cause, step_s: float) -> Iterator[str]:
    share = _percent(cause.seconds / step_s)
    first = f"{number}. {_where(cause)} ({cause.kind}): {_seconds(cause.seconds)} s, {share} % of the step"
    if saved := cause.saving_s:
        first += f"; a cure saves {_seconds(saved.low)} to {_seconds(saved.high)} s"
    else:
        first += "; how much of it a cure saves is not known"
    yield first
    yield f"   {cause.evidence}"
    advice = []
    for cure in cause.cures:
        words = cure.advice
        if cure.saving_s and cure.saving_s != cause.saving_s:
            words += f" [{_seconds(cure.saving_s.low)} to {_seconds(cure.saving_s.high)} s]"
        advice.append(words)
    yield f"   -> {'; '.join(advice)}"


def _where(cause: Cause) -> str:
    where = ""
    if cause.rank is not None:
        where += f" rank {cause.rank}"
    if cause.host:
        where += f" on {cause.host}"
    if where:
        return f"{cause.cause} of{where}"
    return cause.cause


def _bar(start: float, end: float) -> str:
    first = round(BAR * start)
    last = round(BAR * end)
    return " " * first + "#" * max(last - first, 0)


def difference_text(result: Difference) -> str:
    """The ratio first, then what differs, then the parts."""
    tokens = " for the same tokens" if result.other_step else ""
    parts = [
        f"{result.b} takes {result.ratio:.3f} times as long as {result.a}{tokens}{interval_text(result)}\n",
        "".join(f"  {line}\n" for line in _basis(result)),
    ]
    if result.differs:
        values = []
        for each in result.differs:
            values.append((each.name, _stated(each.a), _stated(each.b)))
        parts.append(plain(Table(("differs", "a", "b"), values)))
    else:
        parts.append("they state no difference\n")
    if result.parts:
        rows = [_row(each.part, each.a, each.b) for each in result.parts]
        scaled = "b s"
        if result.scale != 1:
            scaled = f"b s x {result.scale:.3g}"
        parts.append(plain(Table(("part", "a s", scaled, "b - a"), rows)))
    return "\n".join(parts)


def interval_text(result: Difference | Against) -> str:
    """The interval of the ratio after a comma; empty if it has none."""
    interval = result.interval
    if interval is None:
        return ""
    return f", {100 * interval.level:.0f} % interval {interval.low:.3f} to {interval.high:.3f}"


def _basis(result: Difference) -> Iterator[str]:
    """Lines on the steps, the interval and the answer behind the ratio."""
    a, b = result.step_time_s
    yield f"step time   {a:.4g} s and {b:.4g} s, medians; b has {1 / result.ratio:.3f} of a's speed"
    if result.scale != 1:
        times = f"{1 / result.scale:.4g} times the tokens"
        yield f"per token   in a step of b a GPU has {times}: its parts below are scaled, and its step in the ratio"
    models = [each for each in result.differs if each.name.startswith("model.")]
    if models:
        values = ", ".join(f"{each.name} {each.a} and {each.b}" for each in models)
        yield f"models      differ ({values}): the ratio is not one of speed"
    yield f"interval    {result.method}"
    yield f"answer      {_answer(result)}"


def _answer(result: Difference) -> str:
    ratio = result.ratio
    percent = f"{100 * result.noticeable:.0f} %"
    if result.other_work:
        return f"not comparable: the runs do other work, another {' and another '.join(result.other_work)}"
    if result.other_tokens:
        sizes = ", ".join(f"{each.name} {each.a} and {each.b}" for each in result.other_tokens)
        return f"not comparable: steps of other sizes ({sizes}), and a log does not state its tokens per GPU"
    if result.stated_by_one:
        return (
            f"not known: one of the logs alone states its {' and its '.join(result.stated_by_one)}"
        )
    if result.uneven:
        means = f"by the means it takes {result.mean_ratio:.3g} times as long"
        return f"not clear: {means}, so some steps are far slower than others"
    if abs(ratio - 1) < result.noticeable:
        return f"no noticeable difference: repeats of one run differ by up to {percent}"
    if result.interval is None or result.interval.low <= 1 <= result.interval.high:
        return f"not clear: more than {percent}, but within the interval of these steps"
    side = "slower" if ratio > 1 else "faster"
    return f"{side}, by more than the interval and more than {percent}"


def _stated(value: str) -> str:
    """A value of a run, and ``-`` for what it does not have or its log does not state."""
    if value == "None":
        return "-"
    return value


def _row(part: str, a: float, b: float) -> tuple[str, str, str, str]:
    return part, _seconds(a), _seconds(b), f"{b - a:+.4g}"


def _seconds(value: float) -> str:
    return f"{value:.4g}"


def _percent(share: float) -> str:
    return f"{100 * share:.1f}"
