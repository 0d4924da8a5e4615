"""PaXML: steps per second, in lines of their own or in the status of the task.

    I0706 16:50:26.230209 140119 programs.py:515] steps/sec: 0.271739
    I0706 16:50:26.240000 140119 summary_utils.py:640] Metrics values at step 100:
    I0706 16:50:26.240100 140119 summary_utils.py:641]   loss=5.123456
    I0706 16:50:26.250000 140119 local.py:41] Setting task status: step = 100, loss= 5.123456, steps/sec 0.27173913

The rate is a mean since the previous summary, over all devices together. Source: google/paxml paxml/programs.py and
paxml/summary_utils.py; no public log of it was found.
"""

import re
from typing import ClassVar

from benchrun.parse.dialect import Dialect, Reading, Record, Value, groups, positive
from benchrun.parse.lines import Line

# Six decimals, so that a number which is cut at the end of its line is still right, or none.
_STATUS = re.compile(
    r"\bstep = (?P<step>\d{1,15}), loss= ?(?P<loss>\S+), steps/sec (?P<step_time_s>\d+\.\d{6,})(?=\s|$)"
)
_RATE = re.compile(r"\bsteps/sec: (?P<step_time_s>\d+\.\d{6})(?=\s|$)")
_STEP = re.compile(r"Metrics values at step (?P<step>\d{1,15}):")
_PER_S = Reading(positive, r"\d+\.\d{6,}", plain=False, scale=lambda rate: 1 / rate)


class Paxml(Dialect):
    """PaXML on Praxis."""

    name = "paxml"
    step_needles = (b"steps/sec", b"Metrics values at step")
    averages = ("rows",)
    head = _STATUS
    readings: ClassVar = {"step_time_s": _PER_S}

    def __init__(self) -> None:
        super().__init__()
        self._rate: list[Value] = []
        """Of a line without a step."""

    def read(self, line: Line) -> None:
        """A rate, then the step that it belongs to; or both at once."""
        if not self.whole(line) or _STATUS.search(line.text):
            super().read(line)
        elif rate := _RATE.search(line.text):
            self._rate = groups(rate, step_time_s=_PER_S)
        elif step := _STEP.search(line.text):
            self.add(Record([*groups(step), *self._rate]), line.number)
            self._rate = []
