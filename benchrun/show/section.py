"""A part of a report."""

from dataclasses import dataclass

from benchrun.show.plot import Plot
from benchrun.show.table import Table


@dataclass(frozen=True)
class Section:
    """A part of a report."""

    identity: str
    """Its anchor in a page."""
    title: str
    text: str
    """Its content in one or two sentences."""
    plots: tuple[Plot, ...] = ()
    tables: tuple[Table, ...] = ()
