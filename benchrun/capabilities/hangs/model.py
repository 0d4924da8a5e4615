"""The document of a hang."""

from typing import Literal

from benchrun.model import Frozen

Where = Literal["host", "device", "unknown"]


class Hang(Frozen):
    """A collective that never ends, and the ranks that the others wait for."""

    ranks: list[int]
    """Guilty ranks; empty where the files do not show them."""
    group: str | None
    """Short name of the process group, e.g. ``dp``, or its description."""
    collective: str | None
    sequence: int | None
    """Number of the collective in its group, from 1."""
    where: Where
    """``host``: the rank never called the collective, or called another one; ``device``: it
    did, and its GPU did not finish it.
    """
    evidence: list[str]

    @property
    def sentence(self) -> str:
        """The hang in one sentence."""
        place = "no recorded collective"
        if self.collective:
            place = f"{self.collective} {self.sequence} of group {self.group}"
        if not self.ranks:
            return f"hangs in {place}; the files do not show which rank is the cause"
        names = ", ".join(map(str, self.ranks))
        who, verb = f"rank {names}", "does"
        if len(self.ranks) > 1:
            who, verb = f"ranks {names}", "do"
        side = "" if self.where == "unknown" else f" ({self.where})"
        if self.collective is None:
            return f"hangs: {who}{side} {verb} not go on, in {place}"
        return f"hangs: the others wait for {who}{side} in {place}"
