"""Folders of logs and the accounting -> the audit."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from benchrun.measure.statistics import Floats, robust_deviation

from .accounting import allocations
from .effects import CLIP, LEAST, SUSPECT, Z90, Effects, fitted
from .entry import Entry, Kind, date_text, entry_of, predicted
from .failures import Failure, failures, total_failure
from .losses import Slowed, slowed
from .model import (
    Audit,
    Expected,
    Job,
    Lost,
    Node,
    NotRead,
    Range,
    Total,
    TotalLost,
    Verdict,
)
from .reading import Part, read_folders
from .windows import Jobs

DAY_S = 86_400.0
MOST_SPREAD = 0.05
"""Relative spread of the step times of one work; jobs of one name may be of several."""
FEWEST_OF_KIND = 3
"""Jobs of a layout that show how fast it is."""


def audit_folders(
    folders: Sequence[Path], sacct: Path | None = None, price: float | None = None
) -> Audit:
    """Audit the jobs whose logs lie in ``folders``; ``sacct``: a file that it printed;
    ``price``: of a GPU-hour.

    UserError for a folder that is not there and for a damaged file of the accounting.
    """
    rows, left_out = allocations(sacct) if sacct else ({}, [])
    readings, not_read = read_folders(folders, rows, sacct)
    entries = []
    seen = set()
    for reading in sorted(readings, key=lambda each: -float(each.seconds.sum())):
        known = rows.get(reading.job_id or "", ())
        first = reading.job_id not in seen  # a second training of one job has no time of its own
        entries.append(entry_of(reading, known if first else ()))
        seen.add(reading.job_id)
    entries += [entry_of(None, each) for name, each in rows.items() if name not in seen]
    entries.sort(key=lambda each: (each.start is None, each.start or 0.0, each.name))
    return _audit(entries, [*left_out, *not_read], price)


class _Compared:
    """The jobs of which another of the same kind ran here, as numbers."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        alike: dict[Kind | None, list[int]] = defaultdict(list)
        for index, each in enumerate(entries):
            if _pace(each):
                alike[each.kind].append(index)
        self.mixed = {kind for kind, places in alike.items() if _is_mixed(kind, places, entries)}
        rows: list[_Row] = []
        for kind, places in alike.items():
            if len(places) > 1 and kind not in self.mixed:
                rows += _rows(places, entries)
        self.rows = sorted(rows, key=lambda row: (row.start is None, row.start or 0.0, row.place))
        chosen = [entries[row.place] for row in self.rows]
        self.names = sorted({name for each in chosen for name in each.nodes})
        self.kinds = list(dict.fromkeys(each.kind for each in chosen))
        number = {name: index for index, name in enumerate(self.names)}
        kinds = {kind: index for index, kind in enumerate(self.kinds)}
        nodes = [np.array(sorted(number[name] for name in set(each.nodes))) for each in chosen]
        starts = [row.start for row in self.rows if row.start is not None]
        self.first_day = int(min(starts, default=0.0) // DAY_S)
        self.jobs = Jobs(
            log_time=np.log([row.part.pace for row in self.rows]),
            error=np.array([row.part.error for row in self.rows]),
            kind=np.array([kinds[each.kind] for each in chosen], dtype=np.int64),
            days=self._days(),
            nodes=nodes,
        )
        self.effects = fitted(self.jobs, len(self.names))

    def _days(self) -> Floats:
        """Share of the time of each row on each day."""
        ends = [row.end for row in self.rows if row.end is not None]
        count = int(max(ends, default=0.0) // DAY_S) - self.first_day + 1 if ends else 0
        shares = np.zeros((len(self.rows), count))
        for share, row in zip(shares, self.rows, strict=True):
            if row.start is None:
                continue
            end = max(row.end or row.start, row.start + 1.0)
            begin = (row.start / DAY_S - self.first_day) - np.arange(count)
            until = (end / DAY_S - self.first_day) - np.arange(count)
            inside = np.clip(until, 0, 1) - np.clip(begin, 0, 1)
            share[:] = inside / max(inside.sum(), 1e-12)
        return shares


class _Row(NamedTuple):
    """One job, or a part of one whose step time changes."""

    place: int
    """Its job's place among the entries."""
    part: Part
    start: float | None
    end: float | None


def _rows(places: Sequence[int], entries: Sequence[Entry]) -> Iterator[_Row]:
    """The rows of the jobs of one kind. A change that most of them have is what they do,
    and no fault.
    """
    readings = {place: reading for place in places if (reading := entries[place].reading)}
    changed = sum(len(reading.parts) > 1 for reading in readings.values())
    for place, reading in readings.items():
        entry, parts = entries[place], reading.parts
        if 2 * changed > len(places):
            error = max(part.error for part in parts)
            parts = (Part(0, len(reading.step), reading.pace or np.nan, error),)
        for part in parts:
            end = entry.end if part is parts[-1] else entry.at(part.last)
            yield _Row(place, part, entry.at(part.first), end)


def _is_mixed(kind: Kind | None, places: Sequence[int], entries: Sequence[Entry]) -> bool:
    """Whether jobs of one name differ so much that they do not do the same work."""
    if kind is None or not kind.unknown:
        return False
    times = np.log([_pace(entries[place]) or np.nan for place in places])
    return robust_deviation(times) > MOST_SPREAD


def _pace(entry: Entry) -> float | None:
    return entry.reading.pace if entry.reading else None


def _audit(
    entries: Sequence[Entry], not_read: Sequence[tuple[str, str]], price: float | None
) -> Audit:
    compared = _Compared(entries)
    failed = failures(entries)
    hours = np.array([_kept_hours(row, entries, failed) for row in compared.rows])
    lost = slowed(compared.jobs, compared.effects, hours)
    choices = _choices(compared)
    unexplained = _unexplained(compared.effects, compared.jobs)
    rows_of: dict[int, list[int]] = defaultdict(list)
    for number, one in enumerate(compared.rows):
        rows_of[one.place].append(number)
    guesses: dict[Kind | None, Expected | str] = {}
    jobs = []
    for at, entry in enumerate(entries):
        rows = rows_of[at]
        expected, slower_by, evidence = None, None, []
        losses = Lost(failure=failed[at].gpu_hours)
        if not rows:
            if entry.kind not in guesses:
                guesses[entry.kind] = _guess(entry)
            guess = guesses[entry.kind]
            if isinstance(guess, Expected):
                expected = guess
            else:
                evidence.append(f"no step time is expected: {guess}")
            if entry.kind in compared.mixed:
                evidence.append("not compared: jobs of its name have very different step times")
        else:
            longest = max(rows, key=lambda row: hours[row])
            expected = _expected(compared.effects, longest, entry)
            kept = (hours - lost.fault - lost.day)[rows].sum()
            behind, words = choices.get(int(compared.jobs.kind[longest]), (0.0, ""))
            losses = Lost(
                fault=float(lost.fault[rows].sum()),
                day=float(lost.day[rows].sum()),
                failure=failed[at].gpu_hours,
                choice=float(-kept * np.expm1(-behind)),
            )
            slowest = max(rows, key=lambda row: compared.effects.slow_by[row])
            if most := unexplained[rows].max():
                slower_by = float(np.expm1(most))
                evidence.append(f"{100 * slower_by:.1f} % slower, {_by(compared, entry)}")
            evidence += _reasons(compared, slowest, entry, words)
        jobs.append(_job(entry, expected, slower_by, losses, [failed[at].evidence, *evidence]))
    return Audit(
        jobs=tuple(jobs),
        nodes=tuple(_nodes(compared, entries, unexplained > 0)),
        slow_days=_slow_days(compared),
        undecided=tuple(_undecided(compared)),
        total=_total(
            jobs, len({row.place for row in compared.rows}), lost, total_failure(failed), price
        ),
        not_read=tuple(NotRead(log=log, why=why) for log, why in not_read),
    )


def _kept_hours(row: _Row, entries: Sequence[Entry], failed: Sequence[Failure]) -> float:
    """GPU-hours of the steps of a row that count."""
    entry = entries[row.place]
    if entry.reading is None:
        return 0.0
    inside = slice(row.part.first, row.part.last)
    count = entry.reading.step[inside] <= failed[row.place].kept
    return float(entry.reading.seconds[inside][count].sum()) * (entry.num_gpus or 0) / 3600


def _guess(entry: Entry) -> Expected | str:
    """The step time of a job without another of its kind, or why there is none."""
    if entry.reading is None or entry.reading.step_time_s is None:
        return "no log of it has step times"
    return predicted(entry.reading, entry.setting)


def _unexplained(effects: Effects, jobs: Jobs) -> Floats:
    """Slowness of each row that neither node, day nor noise explains, as a logarithm."""
    off = jobs.log_time - effects.level - jobs.days @ effects.day - effects.slow_by
    return np.where(off > np.maximum(SUSPECT, CLIP * effects.level_error), off, 0.0)


def _by(compared: "_Compared", entry: Entry) -> str:
    """The nodes of a job that may have slowed it."""
    suspects = [suspect.nodes for suspect in compared.effects.suspects]
    for group in [*compared.effects.rivals, *suspects]:
        names = [compared.names[node] for node in group]
        if mine := [name for name in names if name in entry.nodes]:
            return f"perhaps by {' or '.join(mine)}"
    return "no cause found"


def _expected(effects: Effects, row: int, entry: Entry) -> Expected | None:
    step_s, pace = entry.reading and entry.reading.step_time_s, _pace(entry)
    if not (step_s and pace):
        return None
    level, error = effects.level[row], effects.level_error[row]
    if np.isnan(level):
        return None
    times = step_s / pace * np.exp(level + error * np.array([-Z90, 0.0, Z90]))
    low, middle, high = times.tolist()
    return Expected(median=middle, low=low, high=high, source="other jobs of this cluster")


def _choices(compared: _Compared) -> dict[int, tuple[float, str]]:
    """Of each kind that another layout or software beats at the same work: by how much,
    as a logarithm, and which one.
    """
    kind, effects = compared.jobs.kind, compared.effects
    alike: dict[object, list[int]] = defaultdict(list)
    for number, each in enumerate(compared.kinds):
        if each is not None and not each.unknown and (kind == number).sum() >= FEWEST_OF_KIND:
            alike[each.work].append(number)
    behind = {}
    for numbers in alike.values():
        levels = {number: effects.levels[number] for number in numbers}
        best = min(numbers, key=lambda number: levels[number])
        for number in numbers:
            apart = levels[number] - levels[best]
            error = np.hypot(effects.levels_error[number], effects.levels_error[best])
            if apart > max(LEAST, 2 * Z90 * error):
                words = _other_way(compared.kinds[number], compared.kinds[best])
                behind[number] = float(apart), f"{np.exp(apart):.3f} times as long as {words}"
    return behind


def _other_way(one: Kind | None, other: Kind | None) -> str:
    """What the ``other`` kind of the same work does in another way."""
    if one is None or other is None:
        return ""
    mine = dict(one.way)
    words = []
    for name, value in other.way:
        if mine.get(name) != value:
            words.append(f"{name.replace('_', ' ')} {value} (here {mine.get(name)})")
    return "the same work with " + ", ".join(words)


def _reasons(compared: _Compared, row: int, entry: Entry, choice: str) -> list[str]:
    """What a job was compared with, and what made it slow."""
    effects = compared.effects
    place = int(effects.blamed[row])
    reasons = []
    if place >= 0:
        spell = effects.spells[place]
        name = compared.names[spell.node]
        reasons.append(f"{name} makes a step {100 * np.expm1(spell.effect):.1f} % longer")
    day = float(compared.jobs.days[row] @ effects.day)
    if day > LEAST:
        reasons.append(f"all jobs of the day are {100 * np.expm1(day):.1f} % slower")
    if choice:
        reasons.append(choice)
    kind = compared.jobs.kind
    alike = {compared.rows[other].place for other in np.flatnonzero(kind == kind[row])}
    others = len(alike) - 1
    reasons.append(f"compared with {others} other job{'s' * (others != 1)} of its kind")
    if entry.kind and entry.kind.unknown:
        names = ", ".join(name.replace("_", " ") for name in entry.kind.unknown)
        reasons.append(f"of the same name, because the logs do not state {names}")
    return reasons


def _job(
    entry: Entry,
    expected: Expected | None,
    slower_by: float | None,
    lost: Lost,
    evidence: Sequence[str],
) -> Job:
    reading = entry.reading
    shares = {
        "slow_node": lost.fault,
        "slow_day": lost.day,
        "failure": lost.failure,
        "choice": lost.choice,
    }
    cause = max(shares, key=lambda name: shares[name])
    words = [each for each in evidence if each]
    if expected and expected.source == "prediction":
        words.append("no other job of its kind ran here")
    return Job.model_validate(
        {
            "job_id": entry.job_id,
            "log": reading.log if reading else None,
            "framework": reading.framework if reading else None,
            "model": entry.kind.model if entry.kind else None,
            "gpu": entry.setting.gpu,
            "precision": entry.setting.precision,
            "num_gpus": entry.num_gpus,
            "nodes": entry.nodes,
            "start": date_text(entry.start),
            "end": date_text(entry.end),
            "state": entry.state,
            "gpu_hours": entry.gpu_hours,
            "step_time_s": reading.step_time_s if reading else None,
            "expected_s": expected,
            "lost_gpu_hours": lost,
            "cause": cause if shares[cause] > 0 else None,
            "slower_by": slower_by,
            "evidence": "; ".join(words) or "no other job of its kind ran here",
        }
    )


def _nodes(
    compared: _Compared, entries: Sequence[Entry], unexplained: NDArray[np.bool_]
) -> list[Node]:
    """Every node, the slowest accused one first."""
    effects = compared.effects
    spells = {spell.node: spell for spell in effects.spells}
    suspects = {one: each for each in effects.suspects for one in each.nodes}
    rivals = {one for group in effects.rivals for one in group}
    for one in rivals | set(suspects):
        unexplained[effects.jobs_of[one]] = False
    found = []
    for number, name in enumerate(compared.names):
        mine, since, until = effects.jobs_of[number], None, None
        effect, error = effects.node[number], effects.node_error[number]
        verdict = "undecided" if number in rivals else "as others"
        if spell := spells.get(number):
            since = date_text(compared.rows[mine[spell.first]].start)
            if spell.last < len(mine):
                until = date_text(compared.rows[mine[spell.last]].start)
            mine, verdict = mine[spell.first : spell.last], "slow"
        elif suspect := suspects.get(number):
            verdict = "perhaps slow" if len(suspect.nodes) == 1 else "undecided"
            mine = np.intersect1d(mine, suspect.jobs)
            effect, error = suspect.effect, suspect.error
        elif verdict == "as others" and unexplained[mine].all():
            verdict = "too few jobs to tell"
        slower_by = _slower(effect, error)
        found.append(
            Node.model_validate(
                {
                    "node": name,
                    "jobs": len({compared.rows[job].place for job in mine}),
                    "slower_by": slower_by,
                    "since": since,
                    "until": until,
                    "accused": spell is not None,
                    "verdict": verdict if slower_by else "not compared",
                }
            )
        )
    for name in {name for each in entries for name in each.nodes} - set(compared.names):
        alone = Node(
            node=name, jobs=0, slower_by=None, since=None, accused=False, verdict="not compared"
        )
        found.append(alone)
    return sorted(found, key=_order)


ORDER = get_args(Verdict)


def _order(node: Node) -> tuple[int, float, str]:
    slow = node.slower_by.median if node.slower_by else 0.0
    return ORDER.index(node.verdict), -slow, node.node


def _slower(effect: float, error: float) -> Range | None:
    """A relative slowness of its logarithm."""
    if not np.isfinite(error):
        return None
    low, middle, high = np.expm1(effect + error * np.array([-Z90, 0.0, Z90])).tolist()
    return Range(median=middle, low=low, high=high)


def _slow_days(compared: _Compared) -> dict[str, Range]:
    effects = compared.effects
    days = {}
    for place, day in enumerate(effects.known_days):
        error = np.hypot(np.sqrt(effects.covariance[place, place]), effects.day_spread)
        slow = _slower(effects.day[day], float(error))
        if effects.day[day] > 0 and slow:
            date = date_text((compared.first_day + int(day)) * DAY_S) or ""
            days[date.partition("T")[0]] = slow
    return days


def _undecided(compared: _Compared) -> list[tuple[str, ...]]:
    """Groups of nodes of which one is slow, or perhaps slow."""
    pairs = []
    several = [suspect.nodes for suspect in compared.effects.suspects if len(suspect.nodes) > 1]
    for pair in [*compared.effects.rivals, *several]:
        pairs.append(tuple(sorted(compared.names[node] for node in pair)))
    return pairs


def _total(
    jobs: Sequence[Job], compared: int, lost: Slowed, failure: Range, price: float | None
) -> Total:
    gone = TotalLost(
        fault=lost.total_fault,
        day=lost.total_day,
        failure=failure.median,
        failure_range=failure,
        choice=sum(each.lost_gpu_hours.choice for each in jobs),
    )
    money = None
    if price is not None:
        money = TotalLost(
            fault=_times(gone.fault, price),
            day=_times(gone.day, price),
            failure=gone.failure * price,
            failure_range=_times(failure, price),
            choice=gone.choice * price,
        )
    hours = sum(each.gpu_hours or 0.0 for each in jobs)
    return Total(
        jobs=len(jobs), compared=compared, gpu_hours=hours, lost_gpu_hours=gone, lost_money=money
    )


def _times(value: Range, price: float) -> Range:
    return Range(median=value.median * price, low=value.low * price, high=value.high * price)
