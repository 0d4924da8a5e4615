"""PaXML: steps a second, in lines of their own or in the status of the task.

    I0706 16:50:26.230209 140119 programs.py:515] steps/sec: 0.271739
    I0706 16:50:26.240000 140119 summary_utils.py:640] Metrics values at step 100:
    I0706 16:50:26.240100 140119 summary_utils.py:641]   loss=5.123456
    I0706 16:50:26.250000 140119 local.py:41] Setting task status: step = 100, loss= 5.123456, steps/sec 0.27173913

The rate is a mean since the summary before, of the whole machine. Source: google/paxml paxml/programs.py and
paxml/summary_utils.py; no public log of it was found.
"""

from __future__ import annotations

import re

from benchrun.parse.dialect import Dialect, number, positive
from benchrun.parse.lines import Line
from benchrun.parse.records import Step

# Six decimals, so that a number which is cut at the end of its line is still right, or none.
_STATUS = re.compile(r"\bstep = (\d{1,15}), loss= ?(\S+), steps/sec (\d+\.\d{6,})(?=\s|$)")
_RATE = re.compile(r"\bsteps/sec: (\d+\.\d{6})(?=\s|$)")
_STEP = re.compile(r"Metrics values at step (\d{1,15}):")


class Paxml(Dialect):
    """PaXML on Praxis."""

    name = "paxml"
    step_needles = (b"steps/sec", b"Metrics values at step")
    one_line = True

    def __init__(self) -> None:
        super().__init__()
        self._rate: float | None = None

    def read(self, line: Line) -> None:
        """A rate, then the step that it belongs to; or both at once."""
        if not self.whole(line):
            return
        if status := _STATUS.search(line.text):
            self._row(int(status[1]), positive(status[3]), line.number, number(status[2]))
        elif rate := _RATE.search(line.text):
            self._rate = positive(rate[1])
        elif step := _STEP.search(line.text):
            self._row(int(step[1]), self._rate, line.number, None)
            self._rate = None

    def _row(self, step: int, rate: float | None, line: int, loss: float | None) -> None:
        if rate is not None:
            self.rows.add(Step(step, 1 / rate, line, loss=loss), averages=True)
