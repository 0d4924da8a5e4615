"""A part of a report."""

from dataclasses import dataclass

from .plot import Plot
from .table import Table


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
