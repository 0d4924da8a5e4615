"""PaXML: steps per second, in lines of their own and in the status of the task.

    I1126 00:44:54.195854 140267 programs.py:485] steps/sec: 1.292137
    I1126 00:44:54.213239 140265 summary_utils.py:595] Metrics values at step 10:
    I1126 00:44:54.213308 140265 summary_utils.py:596]   loss=5.222627
    I1126 00:44:54.230271 140265 local.py:45] Setting task status: step = 10, loss= 5.222626686096191, steps/sec
    1.2921370900600178, aux_loss=0.0, avg_xent=5.222626686096191, ...

The rate is a mean since the previous summary, over all devices together. Another thread
writes the summary, so only the status surely has a step and its own rate. Source:
google/paxml paxml/programs.py and paxml/summary_utils.py, and the log of our own run of
4a6bf200 on a CPU; no public log was found.
"""

import re
from math import lcm
from typing import ClassVar

from benchrun.logs.dialect import Dialect, Reading, Record, Value, groups
from benchrun.logs.lines import Line
from benchrun.logs.numerals import positive

# Six decimals, so that a number which is cut at the end of its line is still right, or
# none.
_STATUS = re.compile(
    r"\bstep = (?P<step>\d{1,15}), loss= ?(?P<loss>[^\s,]+), steps/sec (?P<step_time_s>\d+\.\d{6,})(?=[\s,]|$)"
)
_RATE = re.compile(r"\bsteps/sec: (?P<step_time_s>\d+\.\d{6})(?=\s|$)")
_STEP = re.compile(r"Metrics values at step (?P<step>\d{1,15}):")
_PER_S = Reading(positive, r"\d+\.\d{6,}", plain=False, scale=lambda rate: 1 / rate)
_DEVICES, _PROCESSES = "jax.device_count()", "jax.process_count()"
_BATCH, _LENGTH = "input.batch_size", "input.seq_len"
_STEPS, _INTERVAL = "train.num_train_steps", "train.summary_interval_steps"
_NAMES = (_DEVICES, _PROCESSES, _BATCH, _LENGTH, _STEPS, _INTERVAL)
_SETTING = re.compile(rf"\s({'|'.join(map(re.escape, _NAMES))}) ?: (\d{{1,15}})\s*$")
RATE_STEPS = 10
"""Steps between two rates: PaXML computes its rate after every multiple of this number.
"""


class Paxml(Dialect):
    """PaXML on Praxis."""

    name = "paxml"
    step_needles = (b"steps/sec", b"Metrics values at step")
    fact_needles = tuple(name.encode() for name in _NAMES)
    averages = ("rows",)
    head = _STATUS
    readings: ClassVar = {"step_time_s": _PER_S}

    def __init__(self) -> None:
        super().__init__()
        self._rate: list[Value] = []
        """Rate of a line without a step."""
        self._status = False
        """Whether the log has the status of a step."""
        self._settings: dict[str, int] = {}

    def read(self, line: Line) -> None:
        """The status of a step; in a log without one a rate, then the step that it
        belongs to; or a fact.
        """
        if self.whole(line) and not self._status:
            self._status = _STATUS.search(line.text) is not None
        if not self.whole(line) or self._status:
            super().read(line)
        elif rate := _RATE.search(line.text):
            self._rate = groups(rate, step_time_s=_PER_S)
        elif step := _STEP.search(line.text):
            self.add(Record([*groups(step), *self._rate]), line.number)
            self._rate = []
        else:
            super().read(line)

    def read_facts(self, text: str) -> None:
        """Devices, batch, and the last step that it reports."""
        if not (setting := _SETTING.search(text)):
            return
        settings = self._settings
        settings[setting[1]] = int(setting[2])
        self.facts.take("num_gpus", settings.get(_DEVICES))
        self.facts.take("seq_length", settings.get(_LENGTH))
        # Each process reads its own part of the batch.
        self.facts.take("gbs", settings.get(_BATCH, 0) * settings.get(_PROCESSES, 0))
        # A step has a status if both a summary and a rate are due.
        steps, every = settings.get(_STEPS, 0), lcm(RATE_STEPS, settings.get(_INTERVAL, 0))
        if every:
            self.facts.take("planned_steps", steps - steps % every)
