"""Many logs: write each, let benchrun parse it, judge, count what occurred."""

import json
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from itertools import islice
from pathlib import Path
from random import Random

from . import product
from .draw import draw
from .forms import ALL
from .judge import Finding, judge, judge_verdict
from .served import FORMS as SERVERS
from .served import Served, draw_served, judge_served, served_log
from .truth import PRECISIONS, Given, Latent, Model, Truth
from .wrap import WRAPPERS
from .write import log

EVERY = 1000
"""Logs of a process between two reports."""


@dataclass
class Tally:
    """What occurred in the logs, and what failed, by family of forms and kind of finding."""

    occurred: dict[str, Counter[str]] = field(default_factory=dict)
    failures: dict[tuple[str, str], list[tuple[Truth, Finding]]] = field(default_factory=dict)
    servers: dict[str, list[tuple[Served, Finding]]] = field(default_factory=dict)
    logs: int = 0

    def count(self, truth: Truth, found: list[Finding]) -> None:
        """Count a log, and keep what failed."""
        kinds = {"dialect": truth.form, "wrapper": truth.wrapper, "precision": truth.precision}
        for kind, value in kinds.items():
            self.occurred.setdefault(kind, Counter())[value] += 1
        self.logs += 1
        if self.logs % EVERY == 0:
            sys.stderr.write(f"{self.logs} logs of this process, {len(self.failures)} kinds of findings\n")
        family = type(ALL[truth.form]).__name__
        for finding in found:
            cases = self.failures.setdefault((family, finding.kind), [])
            if not cases:
                sys.stderr.write(f"log {self.logs}, {truth.form}: {finding.kind}: {finding.said}\n")
            cases.append((truth, finding))

    def add(self, other: "Tally") -> None:
        """Add what another process counted."""
        self.logs += other.logs
        for kind, counter in other.occurred.items():
            self.occurred.setdefault(kind, Counter()).update(counter)
        for key, cases in other.failures.items():
            self.failures.setdefault(key, []).extend(cases)
        for key, benchmarks in other.servers.items():
            self.servers.setdefault(key, []).extend(benchmarks)

    def served(self, truth: Served, found: list[Finding]) -> None:
        """Count the benchmark of a server, and keep what failed."""
        self.occurred.setdefault("server", Counter())[truth.form] += 1
        self.logs += 1
        for finding in found:
            self.servers.setdefault(f"{truth.form}: {finding.kind}", []).append((truth, finding))


def check_served(truth: Served, folder: Path) -> list[Finding]:
    """Write the log of a server's benchmark, parse it, judge the answer."""
    path = folder / ("job.json" if truth.form.endswith("json") else "job.log")
    path.write_bytes(served_log(truth))
    found = judge_served(truth, product.parse(path, Given()))
    path.unlink()
    return found


def servers(count: int, seed: int) -> Iterator[Served]:
    """Truths of servers in a fixed order."""
    names, wrappers = list(SERVERS), list(WRAPPERS)
    for index in range(count):
        random = Random(f"{seed}:server:{index}")
        yield draw_served(random, names[index % len(names)], wrappers[index // len(names) % len(wrappers)])


def check(truth: Truth, folder: Path) -> list[Finding]:
    """Write the log of one truth, parse it, judge the answer; one of 40 is compared too."""
    path = folder / "job.log"
    path.write_bytes(log(truth))
    before = _state(folder)
    found = judge(truth, product.parse(path, truth.given))
    if truth.seed % 40 == 0 and truth.given.recipe:
        found += judge_verdict(truth, product.compare(path, truth.given))
    if _state(folder) != before:
        found.append(Finding("a query wrote", str(before), str(_state(folder))))
    return found


def _state(folder: Path) -> list[tuple[str, int, int]]:
    """Name, size and time of each file of a folder."""
    files = sorted(folder.rglob("*"))
    return [(file.name, file.stat().st_size, file.stat().st_mtime_ns) for file in files]


def truths(count: int, seed: int, form: str | None = None) -> Iterator[Truth]:
    """Truths in a fixed order: dialect, wrapper and precision take turns."""
    names, wrappers = list(ALL), list(WRAPPERS)
    for index in range(count):
        random = Random(f"{seed}:{index}")
        chosen = form or names[index % len(names)]
        turn = index // len(names)
        precision = PRECISIONS[turn // len(wrappers) % len(PRECISIONS)]
        yield draw(random, chosen, wrappers[turn % len(wrappers)], precision)


def run(count: int, seed: int, form: str | None = None, part: int = 0, parts: int = 1) -> Tally:
    """Check one of ``parts`` equal parts of ``count`` truths."""
    tally = Tally()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for served in islice(servers(count // 20, seed), part, None, parts) if form is None else ():
            tally.served(served, check_served(served, folder))
        for truth in islice(truths(count, seed, form), part, None, parts):
            tally.count(truth, check(truth, folder))
    return tally


def run_apart(count: int, seed: int, form: str | None, processes: int) -> Tally:
    """Check ``count`` truths in several processes."""
    total = Tally()
    with ProcessPoolExecutor(processes) as pool:
        waiting = [pool.submit(run, count, seed, form, part, processes) for part in range(processes)]
        for each in waiting:
            total.add(each.result())
    return total


def smallest(truth: Truth, kind: str, folder: Path) -> Truth:
    """The truth with every field at its default that the finding does not need."""
    plain = Truth(form=truth.form, model=truth.model)
    again = True
    while again:
        again = False
        for name in asdict(plain):
            if name in ("form", "model") or getattr(truth, name) == getattr(plain, name):
                continue
            simpler = replace(truth, **{name: getattr(plain, name)})
            if plausible(simpler) and _fails(simpler, kind, folder):
                truth, again = simpler, True
    return truth


def plausible(truth: Truth) -> bool:
    """Whether the GPU can be as fast as that, and the log or the user states what it needs."""
    guessed = ALL[truth.form].quotient and truth.gpus != truth.dp and "num_gpus" not in truth.typed
    return not guessed and truth.tflops(causal=False) < 0.7 * (truth.peak or 30)


def _fails(truth: Truth, kind: str, folder: Path) -> bool:
    try:
        return any(finding.kind == kind for finding in check(truth, folder))
    except (ValueError, IndexError, KeyError, ZeroDivisionError):
        return False


def dumped(truth: Truth) -> str:
    """A truth as JSON."""
    return json.dumps(asdict(truth))


def loaded(text: str) -> Truth:
    """The truth of `dumped`."""
    found = json.loads(text)
    latent = found["model"]["latent"]
    found["model"] = Model(**found["model"] | {"latent": Latent(**latent) if latent else None})
    for name in ("stalls", "evaluations", "checkpoints", "restart", "typed"):
        if found[name] is not None:
            found[name] = tuple(found[name])
    return Truth(**found)
