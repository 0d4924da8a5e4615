"""NeMo-RL: a block of lines a step, or the JSON that its tests make of TensorBoard's
events.

    ========================= Step 3/20 =========================
      • Loss: 0.0502
      • Mean Generation Length: 314.4863
      • Total step time: 10.82s
      • generation: 5.61s (51.9%)
        - E2E (Tokens/sec/gpu): 1073.59

The total stands before the stages, which are sorted by size; some are parts of others,
so they are never added up. The rates count prompts and responses, those of a stage over
the stage's own GPUs. The first releases print no rates. Source: NVIDIA-NeMo/RL
nemo_rl/algorithms/grpo.py, utils.py; tests/json_dump_tb_logs.py.
"""

import re

from benchrun.logs.lines import Line
from benchrun.logs.numerals import count, credible, number, positive
from benchrun.logs.rows import Rows, Step

from .rollouts import Rollouts, first

_HEAD = re.compile(r"={25} Step (\d{1,15})(?:/(\d{1,15}))? ={25}")
_TOTAL = re.compile(r"Total step time: (\d+\.\d\d)s(?=\s|$)")
_STAGE = re.compile(r"• ([\w/]{1,80}): (\d+\.\d\d)s \(\d+\.\d%\)")
_RESULT = re.compile(r"• (Loss|Avg Reward|Avg Total Reward|Mean Generation Length): (\S{1,40})\s*$")
_RATE = re.compile(r"- ([\w ]{1,60}) \((Samples|Tokens)/sec(/gpu)?\): (\d+\.\d\d)\s*$")
_STAGES = {
    "generation_s": ("generation", "exposed_generation"),
    "training_s": ("policy_training",),
    "logprob_s": ("policy_and_reference_logprobs",),
    "weight_sync_s": ("weight_sync", "prepare_for_generation/total", "prepare_for_generation"),
}
_OTHER = {
    "checkpointing": "a checkpoint",
    "idle/validation": "a validation",
    "validation": "a validation",
}
_RATES = {
    "Policy Training": "training_tokens_per_s_per_gpu",
    "Policy and Reference Logprobs": "logprob_tokens_per_s_per_gpu",
    "Generation Worker Group": "generation_tokens_per_s_per_gpu",
}
_NAME = re.compile(r'\s*"([^"]{1,200})": \{')
_ENTRY = re.compile(r'\s*"(\d{1,15})": ([^\s,{}"]{1,40}),?\s*$')
_TIMING = "timing/train/"
_RATE_OF = "performance/"
_LOGGED_BELOW = (_TIMING, _RATE_OF, "train/")
_LOGGED_TIME = f"{_TIMING}total_step_time"
_LOGGED_RATES = {
    "policy_training_tokens_per_sec_per_gpu": "training_tokens_per_s_per_gpu",
    "policy_and_reference_logprobs_tokens_per_sec_per_gpu": "logprob_tokens_per_s_per_gpu",
    "generation_tokens_per_sec_per_gpu": "generation_tokens_per_s_per_gpu",
}


class NemoRL(Rollouts):
    """NeMo-RL since 0.1."""

    name = "nemo-rl"
    step_needles = (
        b"= Step ",
        b"Total step time: ",
        b"\xe2\x80\xa2 ",
        b"/sec/gpu): ",
        b"/sec): ",
        b"Starting validation at step ",
        b'": ',
    )
    closing = ("=========================",)

    def __init__(self) -> None:
        super().__init__()
        self._step: int | None = None
        """Number in the last head."""
        self._stated: dict[str, str] = {}
        """Facts that the lines before the total state about the step."""
        self._validated = False
        self._row: int | None = None
        """Number of the step whose stages follow."""
        self._of_gpu: float | None = None
        self._name: str | None = None
        """The metric of the JSON whose steps follow."""
        self._logged: dict[str, dict[int, float]] = {}
        self._lines: dict[int, int] = {}

    def read(self, line: Line) -> None:
        """A line of a block, or a line of the JSON."""
        text = line.text
        if not self.whole(line):
            return
        if head := _HEAD.search(text):
            self._step, self._row, self._stated, self._validated = count(head[1]), None, {}, False
            self.facts.planned_steps = count(head[2]) or self.facts.planned_steps
        elif "Starting validation at step " in text:
            self._validated = self._step is not None
        elif match := _TOTAL.search(text):
            self._total(float(match[1]), line.number)
        elif match := _RESULT.search(text):
            self._stated[match[1]] = match[2]
        elif self._row is not None and (match := _STAGE.search(text)):
            self._stage(self._row, match[1], match[2])
        elif self._row is not None and (match := _RATE.search(text)):
            self._rate(self._row, *match.groups())
        elif '": ' in text:
            self._entry(text, line.number)

    def _total(self, time_s: float, line: int) -> None:
        """The row of a block."""
        following = self.rows[len(self.rows) - 1].step + 1 if len(self.rows) else 1
        step = self._step if self._step is not None and self._row is None else following
        row = Step(step, positive(str(time_s)), line, loss=number(self._stated.get("Loss")))
        stated = self._stated
        sizes = {
            "reward": number(stated.get("Avg Reward") or stated.get("Avg Total Reward")),
            "response_tokens": positive(stated.get("Mean Generation Length")),
        }
        self.add_step(row, sizes, "a validation" if self._validated else None)
        self._row, self._stated, self._validated = step, {}, False

    def _stage(self, step: int, name: str, time: str) -> None:
        for quantity, names in _STAGES.items():
            if name in names:
                stated = self.quantities.get(quantity, {}).get(step)
                if stated is None or name == names[0]:
                    self.measure(step, {quantity: positive(time)})
        if name in _OTHER and positive(time):
            self.other_work[step] = _OTHER[name]

    def _rate(self, step: int, what: str, unit: str, of_gpu: str | None, value: str) -> None:
        rate = positive(value)
        if what != "E2E" or unit != "Tokens":
            if of_gpu and unit == "Tokens" and what in _RATES:
                self.measure(step, {_RATES[what]: rate})
        elif of_gpu:
            self._of_gpu, last = rate, len(self.rows) - 1
            self.rows.put(last, self.rows[last]._replace(tokens_per_s_per_gpu=rate))
        elif rate and self._of_gpu:
            self.facts.num_gpus = round(rate / self._of_gpu) or self.facts.num_gpus

    def _entry(self, text: str, line: int) -> None:
        """A line of the JSON: the name of a metric, or one of its steps."""
        if name := _NAME.match(text):
            self._name = name[1] if name[1].startswith(_LOGGED_BELOW) else None
        elif (
            self._name and (entry := _ENTRY.match(text)) and (value := number(entry[2])) is not None
        ):
            self._logged.setdefault(self._name, {})[int(entry[1])] = value
            self._lines.setdefault(int(entry[1]), line)

    @property
    def seen(self) -> bool:
        """Whether a step was read."""
        return len(self.rows) > 0 or _LOGGED_TIME in self._logged

    def finish(self) -> Rows:
        """The rows, also those of the JSON, whose metrics stand in alphabetical order."""
        times = self._logged.get(_LOGGED_TIME)
        if times is None:
            return self.rows
        self.rows = Rows()
        for step in sorted(times):
            at = {}
            for name, by_step in self._logged.items():
                if step in by_step:
                    at[name] = by_step[step]
            stages = {}
            for name, value in at.items():
                if name.startswith(_TIMING):
                    stages[name[len(_TIMING) :]] = str(value)
            rate, loss = (
                credible("tokens_per_s_per_gpu", at.get(f"{_RATE_OF}tokens_per_sec_per_gpu")),
                at.get("train/loss"),
            )
            row = Step(
                step,
                positive(str(times[step])),
                self._lines[step],
                loss=loss,
                tokens_per_s_per_gpu=rate,
            )
            quantities = {name: first(stages, *names) for name, names in _STAGES.items()}
            quantities |= {
                name: credible("tokens_per_s_per_gpu", at.get(f"{_RATE_OF}{key}"))
                for key, name in _LOGGED_RATES.items()
            }
            other = next(
                (words for name, words in _OTHER.items() if positive(stages.get(name))), None
            )
            self.add_step(row, {**quantities, "reward": at.get("train/reward")}, other)
        return self.rows
