"""The count of steps without an update that DeepSpeed's engine prints, whatever program
uses it.

    [Rank 0] step=20, skipped=3, lr=[2e-05], mom=[(0.9, 0.95)]

Both numbers count from the first step of the training, also after a resume.
"""

import re

NEEDLE = b", skipped="
_COUNT = re.compile(r"\bstep=(\d{1,15}), skipped=(\d{1,15})(?!\d)")


class Skipped:
    """Adds up by how much the count rises in a log."""

    def __init__(self) -> None:
        self.steps = 0
        """Steps without an update so far."""
        self._lines = self._step = self._count = 0

    def take(self, text: str) -> None:
        """Take a line. The number of a step falls at a restart."""
        match = _COUNT.search(text)
        if match is None:
            return
        step, count = map(int, match.groups())
        gap = step - self._step
        if gap == 0:
            return  # another rank prints it too
        self._lines += 1
        if self._lines == 2 and 0 < gap < self._step:
            self.steps = 0  # the log begins in the middle: those were skipped before it
        if gap > 0:
            self.steps += max(count - self._count, 0)
        self._step, self._count = step, count
