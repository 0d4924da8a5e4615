"""Classes of kernels, by their names. The patterns stand in kernels.csv, the more
specific ones first.
"""

import functools
import re
from collections.abc import Sequence
from typing import Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from benchrun.paths import table
from benchrun.rundir.fingerprint import KernelTime

from .events import DeviceKind, Events, RankTrace
from .intervals import Intervals

Class = Literal["matmul", "attention", "memory_bound", "communication"]
CLASSES: tuple[Class, ...] = get_args(Class)


class Pattern(NamedTuple):
    """Kernels that belong together."""

    kernel_class: Class
    kind: str
    """The kind within the class: norm, rope, optimizer, ..."""
    expression: re.Pattern[str]


@functools.cache
def patterns() -> tuple[Pattern, ...]:
    """The rows of kernels.csv."""
    return tuple(
        Pattern(row["class"], row["kind"], re.compile(row["pattern"], re.I))  # type: ignore[arg-type]
        for row in table(__file__)
    )


@functools.cache
def pattern_of(name: str) -> Pattern | None:
    """The first pattern that the name of a kernel contains; None for a kernel that the
    table does not know.
    """
    return next((pattern for pattern in patterns() if pattern.expression.search(name)), None)


class Classified(NamedTuple):
    """The class of each device event."""

    events: Events
    number: NDArray[np.int64]
    """Index in CLASSES; -1 for copies between host and device, fills, and graphs traced
    as a whole.
    """
    recognised: NDArray[np.bool_]
    """False for kernels that no pattern fits; they count as memory_bound."""

    def of(self, kernel_class: Class) -> Intervals:
        """The intervals of one class."""
        return self.events.times.where(self.number == CLASSES.index(kernel_class))

    @property
    def compute(self) -> Intervals:
        """Everything that computes: kernels except communication, and graphs traced as
        a whole.
        """
        kernel = np.isin(self.events.kind, (DeviceKind.KERNEL, DeviceKind.GRAPH))
        return self.events.times.where(kernel & (self.number != CLASSES.index("communication")))

    @property
    def copies(self) -> Intervals:
        """Copies within one GPU, copies to or from the host, and fills."""
        return self.events.times.where(np.isin(self.events.kind, (DeviceKind.COPY, DeviceKind.SET)))


def classified(trace: RankTrace, events: Events | None = None) -> Classified:
    """The classes of the device events of a trace, or of ``events`` of it."""
    if events is None:
        events = trace.device_events
    names = np.unique(events.name)
    found_patterns = [pattern_of(trace.names[number]) for number in names]
    classes = []
    for pattern in found_patterns:
        classes.append(CLASSES.index(pattern.kernel_class if pattern else "memory_bound"))
    index = np.searchsorted(names, events.name)
    kernel = events.kind == DeviceKind.KERNEL
    number = np.where(kernel, np.array(classes, np.int64)[index], -1)
    number[events.kind == DeviceKind.PEER_COPY] = CLASSES.index("communication")
    recognised = np.array([pattern is not None for pattern in found_patterns], np.bool_)[index]
    return Classified(events, number, recognised | ~kernel)


def kernels_of(parts: Sequence[tuple[RankTrace, Classified]], window_ns: int) -> list[KernelTime]:
    """The kernels of every class, the longest first; ``window_ns`` is the sum over ranks."""
    lengths: dict[tuple[str, Class], tuple[int, int]] = {}
    for trace, classes in parts:
        for kernel_class in CLASSES:
            own = classes.events.where(classes.number == CLASSES.index(kernel_class))
            for name in np.unique(own.name):
                times = own.times.where(own.name == name)
                key = trace.names[name], kernel_class
                count, length = lengths.get(key, (0, 0))
                lengths[key] = count + len(times.start), length + times.length()
    found = []
    for (name, kernel_class), (count, length) in lengths.items():
        values = {"name": name, "class": kernel_class, "count": count}
        found.append(KernelTime.model_validate({**values, "share": length / max(window_ns, 1)}))
    return sorted(found, key=lambda kernel: -kernel.share)


def unknown(
    parts: Sequence[tuple[RankTrace, Classified]], window_ns: int
) -> list[tuple[str, float]]:
    """Kernels that no pattern fits, the longest first, with their share of all ranks'
    windows.

    ``window_ns`` is the sum over ranks.
    """
    shares: dict[str, float] = {}
    for trace, classes in parts:
        strange = classes.events.where(~classes.recognised)
        for number in np.unique(strange.name):
            length = strange.times.where(strange.name == number).length()
            name = trace.names[number]
            shares[name] = shares.get(name, 0.0) + length / max(window_ns, 1)
    return sorted(shares.items(), key=lambda item: -item[1])
