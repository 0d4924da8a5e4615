"""verl: one line per step, behind Ray's prefix, perhaps in colours.

    (TaskRunner pid=2664304) step:2 - critic/rewards/mean:0.252 - timing_s/gen:44.684 - ... - perf/throughput:1076.864

``timing_s/step`` holds a validation (``testing``) and a checkpoint too. Before 2025
times are called ``timing/gen``, a step has no total, and the numbers begin at 0: then
the step is the sum of its stages, which follow one another. ``perf/throughput`` is the
step's tokens per second and GPU, which gives the number of GPUs; before 2025 the
printed configuration or the command alone has it. Source: verl-project/verl
verl/trainer/ppo/metric_utils.py, verl/utils/logger/aggregate_logger.py; logs of
eric-haibin-lin/verl-data.
"""

import re
from collections import Counter
from collections.abc import Mapping

from benchrun.logs.lines import Line
from benchrun.logs.numerals import count, number, positive, stated_loss
from benchrun.logs.rows import Step

from .rollouts import Rollouts, first, total

_STEP = re.compile(r"(?:^|\s)step:\s?(\d{1,15}) - ")
_PAIR = re.compile(r"([A-Za-z_][^\s:]{0,160}):\s?(\S{1,40})(?= - |\s*$)")
_ENOUGH = re.compile(r"-?\d+\.\d{3,}")
"""The last value of a line may be cut: with three decimals, as most releases print,
what is missing is small.
"""
_NUMPY = re.compile(r"np\.\w{1,16}\(([^()]{1,40})\)")
_STAGES = (
    "gen",
    "reward",
    "old_log_prob",
    "ref",
    "values",
    "adv",
    "update_critic",
    "update_actor",
    "update_weights",
)
"""The stages of a step, which follow one another."""
_GPUS = re.compile(r"(?:\btrainer\.|')(n_gpus_per_node|nnodes)(?:'\s*:\s*|=)'?(\d{1,9})\b")
"""Numbers of GPUs in the command's overrides, or in the configuration, whose last part
is the trainer's.
"""
_OTHER = {"testing": "a validation", "save_checkpoint": "a checkpoint"}


class Verl(Rollouts):
    """verl since 2024."""

    name = "verl"
    step_needles = (b" - timing_s/", b" - timing/")
    fact_needles = (
        b"Total training steps: ",
        b"Total steps: ",
        b"'total_training_steps': ",
        b"n_gpus_per_node",
        b"nnodes",
    )
    fact_groups = (re.compile(r"Total (?:training )?steps: (?P<planned_steps>\d{1,15})\b"),)

    def __init__(self) -> None:
        super().__init__()
        self._stated: dict[str, int] = {}
        """Nodes, and GPUs of one, as the configuration has them."""
        self._counted: Counter[int] = Counter()
        """GPUs by the tokens and the rate of a step -> steps."""

    def read(self, line: Line) -> None:
        """A step, or the numbers of GPUs and of planned steps."""
        head = _STEP.search(line.text)
        if head is None:
            self.read_facts(line.text)
            self._stated |= {name: int(value) for name, value in _GPUS.findall(line.text)}
            if not self._counted and len(self._stated) == 2:
                per_node, nodes = self._stated["n_gpus_per_node"], self._stated["nnodes"]
                self.facts.num_gpus = per_node * nodes or self.facts.num_gpus
        elif line.terminated:  # the last value of a line may be cut
            self._step(line, head)

    def _step(self, line: Line, head: re.Match[str]) -> None:
        values = values_of(line.text[head.start() :])
        prefix = "timing_s/" if any(name.startswith("timing_s/") for name in values) else "timing/"
        times = {}
        for name, value in values.items():
            if name.startswith(prefix):
                times[name[len(prefix) :]] = value
        step, time_s = (
            count(head[1]),
            first(times, "step") or positive(values.get("perf/time_per_step")),
        )
        if step is None or not times:
            return
        if step == 0 and not len(self.rows):
            self.first_number = 0
        other = [words for name, words in _OTHER.items() if positive(times.get(name))]
        if (
            prefix == "timing/" and "prompt_length/mean" in values
        ):  # these lines have no total, and end so
            time_s = total(times, *_STAGES)
        if time_s is None:
            return
        rate, tokens = (
            positive(values.get("perf/throughput")),
            positive(values.get("perf/total_num_tokens")),
        )
        if tokens and rate and (counted := round(tokens / time_s / rate)):
            self._counted[counted] += 1
            self.facts.num_gpus = self._counted.most_common(1)[0][0]
        row = Step(
            step,
            time_s,
            line.number,
            loss=stated_loss(values.get("actor/pg_loss")),
            grad_norm=number(values.get("actor/grad_norm")),
            tokens_per_s_per_gpu=rate,
        )
        quantities = {
            **_stages(times, tokens, self.facts.num_gpus),
            "tokens": tokens,
            "reward": number(values.get("critic/rewards/mean")),
            "response_tokens": positive(values.get("response_length/mean")),
        }
        self.add_step(row, quantities, " and ".join(other))


def values_of(text: str) -> dict[str, str]:
    """The values of a step's line by name, without the last one if the line may be cut
    within it.
    """
    pairs = _PAIR.findall(_NUMPY.sub(r"\1", text))
    return dict(pairs if pairs and _ENOUGH.fullmatch(pairs[-1][1]) else pairs[:-1])


def _stages(
    times: Mapping[str, str], tokens: float | None, num_gpus: int | None
) -> dict[str, float | None]:
    """Seconds of the stages of a step, and of those that work on its ``tokens`` the
    rate per GPU.
    """
    stages = {
        "generation_s": first(times, "gen", "gen_sequences", "generate_sequences"),
        "training_s": total(times, "update_critic", "update_actor"),
        "logprob_s": total(times, "old_log_prob", "ref"),
        "weight_sync_s": first(times, "update_weights", "sync_rollout_weights", "reshard"),
    }
    rates = {}
    for name, time in stages.items():
        if time and tokens and num_gpus and name != "weight_sync_s":
            rates[f"{name[:-2]}_tokens_per_s_per_gpu"] = tokens / time / num_gpus
    return stages | rates
