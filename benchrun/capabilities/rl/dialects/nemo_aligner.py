"""NeMo-Aligner's PPO: a progress bar whose postfix has every number of the step, and
DLLogger's lines of the timers.

    PPO Global Step:  20%|██  | 3/15 [06:19<25:13, 126.1s/it, rollout_time=98.5, generate=71, train_time=21.4, ...]
    DLLL {"type": "LOG", "step": 2, "data": {"timers/rollout_time": 98.53, "timers/train_time": 21.41, ...}, ...}

A step is rollout_time + train_time; the timers of the rollout are parts of it. tqdm
draws a bar as the step's number rises, and again with the same number and the next
step's postfix when that is set. Every rank draws one, with its own times, and may be
one number behind: the first to draw a step counts. From 0.6 on the postfix has no
train_time: then the time between these two drawings, of whole seconds, is the step's,
less a validation's. The postfix has three significant digits, so a line of DLLogger
wins. Source: NVIDIA/NeMo-Aligner nemo_aligner/algorithms/ppo.py.
"""

import re
from collections.abc import Mapping
from typing import NamedTuple

from benchrun.logs.lines import Line, object_in
from benchrun.logs.numerals import count, number, positive, seconds
from benchrun.logs.rows import Rows, Step

from .rollouts import Rollouts, first


def bar_of(name: str) -> re.Pattern[str]:
    """Regex of tqdm's bar of this name: finished steps, planned steps, clock, postfix."""
    return re.compile(
        name
        + r":\s{0,8}\d{1,3}%\|[^|]{0,400}\|\s{0,8}(\d{1,15})/(\d{1,15}) \[([\d:]{1,16})<[^,\]]{1,24}"
        r",\s{0,8}[^,\]]{1,24}(?:, ([^\[\]]{0,8000}))?\]"
    )


_BAR = bar_of("PPO Global Step")
_PAIR = re.compile(r"([\w/]{1,80})=([^,\s\]]{1,40})")
DLLOGGER, TIMERS = "DLLL ", "timers/"
_STAGES = {
    "generation_s": "generate",
    "training_s": "train_time",
    "logprob_s": "logprobs",
    "weight_sync_s": "prepare_for_inference",
    "critic_wait_s": "critic_wait",
}


def pairs_of(postfix: str) -> dict[str, str]:
    """Name -> number, as the postfix of a bar has them."""
    return dict(_PAIR.findall(postfix))


_Numbers = dict[int, tuple[int, dict[str, str]]]
"""Step -> line, numbers by name."""


class _Bar(NamedTuple):
    line: int
    clock_s: int
    postfix: dict[str, str]
    risen: bool
    """Its postfix was drawn with a lower number before: it is that of the step which
    this number counts.
    """


class NemoAligner(Rollouts):
    """NeMo-Aligner 0.2 to 0.7."""

    name = "nemo-aligner"
    step_needles = (
        b"PPO Global Step: ",
        b'"timers/rollout_time"',
        b'"train_rollouts/rollout_size"',
    )

    def __init__(self) -> None:
        super().__init__()
        self._bars: dict[int, list[_Bar]] = {}
        """Number of finished steps -> the first and the last bar that show it."""
        self._logged: _Numbers = {}
        """Step -> line, numbers of DLLogger."""
        self._last_bar = 0
        """Number of finished steps that the last bar shows."""
        self._drawn: dict[str, int] = {}
        """Postfix -> number with which it was drawn first, of the last steps."""
        self._earlier: list[_Numbers] = []
        """The steps of trainings that reached their end before this one."""

    def read(self, line: Line) -> None:
        """Every bar of a line, or a line of DLLogger."""
        if DLLOGGER in line.text:
            self._log(line.text.partition(DLLOGGER)[2], line.number)
        for bar in _BAR.finditer(line.text):
            step, planned = count(bar[1]), count(bar[2])
            self.facts.planned_steps = planned or self.facts.planned_steps
            if step is not None:
                self._draw(step, seconds(bar[3]), bar[4] or "", line.number)

    def _draw(self, step: int, clock_s: int, postfix: str, line: int) -> None:
        if step < self._last_bar - 1 or (step < self._last_bar and not postfix):
            self._begin_again(step)
        if step > self._last_bar:
            self._drawn = {
                text: number for text, number in self._drawn.items() if number >= self._last_bar
            }
        self._last_bar = max(step, self._last_bar)
        risen = self._drawn.setdefault(postfix, step) < step
        drawn = _Bar(line, clock_s, pairs_of(postfix), risen)
        before = self._bars.get(step, [])[:1]
        samples = count(drawn.postfix.get("train_consumed_samples"))
        if (
            not before
            and not risen
            and samples
            and step
            and samples % step
            and samples % (step + 1) == 0
        ):
            before = [
                drawn._replace(postfix={})
            ]  # the log begins here, with the postfix of the next step
        self._bars[step] = [*before, drawn]

    def _begin_again(self, step: int) -> None:
        """Begin again: another attempt, with a clock of its own, repeats the bars from
        this one on; or another training begins.
        """
        if self.last_planned is not None and self._last_bar >= self.last_planned:
            self._earlier.append(self._steps())
            self._bars, self._logged = {}, {}
        self._last_bar, self._drawn = step, {}
        self._bars = {number: bars for number, bars in self._bars.items() if number < step}

    def _log(self, text: str, line: int) -> None:
        event = object_in(text)
        data, step = event.get("data"), event.get("step")
        if isinstance(data, dict) and type(step) is int and step >= 0:
            # DLLogger's numbers begin at 0.
            logged = self._logged.setdefault(step + 1, (line, {}))[1]
            for name, value in data.items():
                if type(value) in (int, float):
                    logged[name.removeprefix(TIMERS).replace("train_rollouts/", "train_")] = str(
                        value
                    )

    @property
    def seen(self) -> bool:
        """Whether a step was read."""
        return any(self._earlier) or any(self._steps())

    def _steps(self) -> _Numbers:
        """Step -> line and numbers, of every step that has ended."""
        steps = {step: (bars[0].line, bars[0].postfix) for step, bars in self._bars.items() if step}
        for (
            step,
            bars,
        ) in self._bars.items():  # the number of the last step of a log may not have risen yet
            last, again = bars[-1], step > 0 and bars[-1].postfix == bars[0].postfix
            if step + 1 not in steps and last.postfix and not last.risen and not again:
                steps[step + 1] = last.line, last.postfix
        for step, (line, values) in self._logged.items():
            at, postfix = steps.get(step, (line, {}))
            steps[step] = at, {**postfix, **values}
        return {
            step: numbers for step, numbers in sorted(steps.items()) if "rollout_time" in numbers[1]
        }

    def finish(self) -> Rows:
        """A row for each step, from both forms."""
        self.rows, self.whole_seconds = Rows(), False
        for training in (*self._earlier, self._steps()):
            for step, (line, values) in training.items():
                self._add(step, line, values)
        return self.rows

    def _add(self, step: int, line: int, values: Mapping[str, str]) -> None:
        rollout, train = first(values, "rollout_time"), first(values, "train_time")
        if rollout and train:
            time_s: float | None = rollout + train
        else:
            time_s = self._by_clock(step, first(values, "validation_time"))
        quantities = {name: first(values, timer) for name, timer in _STAGES.items()}
        if quantities["training_s"] is None and time_s and rollout and time_s > rollout:
            quantities["training_s"] = time_s - rollout
        size, length = _rollout_size(step, values), positive(values.get("train_response_lengths"))
        sizes = {
            "tokens": size * length if size and length else None,
            "reward": number(values.get("train_rewards")),
            "response_tokens": positive(values.get("train_generation_length")),
        }
        self.add_step(
            Step(step, time_s, line, loss=number(values.get("train_optim/loss"))),
            {**quantities, **sizes},
        )

    def _by_clock(self, step: int, validation_s: float | None) -> float | None:
        """The time between the drawings of a step, in whole seconds; None without both."""
        bars = self._bars.get(step - 1, ())
        if len(bars) < 2:
            return None
        self.whole_seconds = True
        return positive(str(bars[-1].clock_s - bars[0].clock_s - (validation_s or 0)))


def _rollout_size(step: int, values: Mapping[str, str]) -> float | None:
    """Samples of a step: printed since 0.5, before it follows from those of all steps."""
    size, samples = (
        positive(values.get("train_rollout_size")),
        positive(values.get("train_consumed_samples")),
    )
    if size:
        return size
    return samples / step if samples and samples % step == 0 else None
