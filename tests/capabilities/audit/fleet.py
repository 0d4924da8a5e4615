"""A cluster's month: logs of jobs and what sacct would print, with planted faults and their cost."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from pathlib import Path

import numpy as np

HEADER = """\
using world size: {gpus}, data-parallel size: {dp}, tensor-model-parallel size: {tp}, pipeline-model-parallel size: 1
------------------------ arguments ------------------------
  bf16 ............................................ {bf16}
  ffn_hidden_size ................................. {ffn}
  fp16 ............................................ {fp16}
  global_batch_size ............................... {gbs}
  hidden_size ..................................... {hidden}
  micro_batch_size ................................ 1
  num_attention_heads ............................. {heads}
  num_layers ...................................... {layers}
  padded_vocab_size ............................... 50304
  pipeline_model_parallel_size .................... 1
  seq_length ...................................... 4096
  swiglu .......................................... False
  tensor_model_parallel_size ...................... {tp}
  train_iters ..................................... {steps}
  world_size ...................................... {gpus}
-------------------- end of arguments ---------------------
"""
STEP = (
    " [{date}] iteration {step:8d}/{steps:8d} | consumed samples: {samples:12d} | "
    "elapsed time per iteration (ms): {ms:.1f} | global batch size: {gbs:5d} | lm loss: {loss:.6E} | "
    "grad norm: {norm:.3f} | number of skipped iterations: 0 | number of nan iterations: 0 |\n"
)
BEGIN = datetime(2026, 3, 1, tzinfo=timezone.utc)
SAVED = "  successfully saved checkpoint from iteration {:7d} to /ckpt\n"
CRASH = "[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"
START_UP_S = 60.0
COLUMNS = "JobID|JobName|State|ExitCode|Start|End|NodeList|AllocTRES"


@dataclass(frozen=True)
class Kind:
    """One workload of the cluster."""

    nodes: int
    step_s: float
    layers: int = 24
    tp: int = 2
    precision: str = "bf16"


@dataclass
class Fleet:
    """What is planted, and what it cost."""

    folder: Path
    nodes: int = 64
    begin: datetime = BEGIN
    days: int = 10
    jobs_a_day: int = 30
    kinds: Sequence[Kind] = (Kind(1, 2.0), Kind(2, 3.0), Kind(4, 5.0, 48), Kind(2, 4.2, precision="fp16"))
    slow: Mapping[int, tuple[int, float]] = field(default_factory=dict)
    """Node -> day since which it is slow, from the middle of its first job on, and the factor."""
    began: dict[int, datetime] = field(default_factory=dict)
    """Node -> when it became slow."""
    slow_day: tuple[int, float] = (-1, 1.0)
    failing: float = 0.0
    restarting: float = 0.0
    """Share of jobs that crash, and go on from their last checkpoint."""
    save_every: int = 0
    """Steps from one checkpoint to the next; 0: none."""
    noise: float = 0.008
    steps: int = 40
    fault: float = 0.0
    day: float = 0.0
    failure: float = 0.0
    rows: list[str] = field(default_factory=lambda: [COLUMNS])

    def write(self, seed: int) -> "Fleet":
        """Write all logs and the accounting; the GPU-hours lost are then known."""
        rng = np.random.default_rng(seed)
        for number in range(self.days * self.jobs_a_day):
            self._job(number, rng)
        (self.folder / "sacct.txt").write_text("\n".join(self.rows) + "\n")
        return self

    def _job(self, number: int, rng: np.random.Generator) -> None:
        day = number // self.jobs_a_day
        kind = self.kinds[rng.integers(len(self.kinds))]
        nodes = np.sort(rng.choice(self.nodes, kind.nodes, replace=False)).tolist()
        of_day = self.slow_day[1] if day == self.slow_day[0] else 1.0
        healthy = kind.step_s * np.exp(rng.normal(0, self.noise))
        crashed = rng.random() < self.failing
        steps = int(rng.integers(5, self.steps)) if crashed else self.steps
        times = healthy * of_day * np.exp(rng.normal(0, 0.01, steps))
        start = self.begin + timedelta(days=(number + float(rng.random())) / self.jobs_a_day)
        factors = np.ones(steps)
        for node in nodes:
            since, factor = self.slow.get(node, (self.days, 1.0))
            first = 0 if node in self.began else steps // 2
            if day >= since:
                factors[first:] = np.maximum(factors[first:], factor)
                self.began.setdefault(node, start + timedelta(seconds=START_UP_S + float(times[:first].sum())))
        times *= factors
        job_id, gpus = 100_000 + number, 8 * kind.nodes
        own = np.random.default_rng(number)
        restarts = not crashed and own.random() < self.restarting
        text, seconds, kept_s = self._log(kind, gpus, times, start, own, restarts=restarts)
        if crashed:
            text += CRASH
        (self.folder / f"slurm-{job_id}.out").write_text(text)
        end = start + timedelta(seconds=seconds)
        hours = gpus * float(times.sum()) / 3600
        if crashed:
            self.failure += gpus * (seconds - kept_s) / 3600
        else:
            self.failure += gpus * (seconds - START_UP_S) / 3600 - hours
            healthy_hours = gpus * float((times / factors).sum()) / 3600
            self.fault += hours - healthy_hours
            self.day += healthy_hours * (1 - 1 / of_day)
        names = ",".join(f"n{node:03d}" for node in nodes)
        state, code = ("FAILED", "1:0") if crashed else ("COMPLETED", "0:0")
        ends = f"{start:%Y-%m-%dT%H:%M:%S}|{end:%Y-%m-%dT%H:%M:%S}"
        tres = f"billing={gpus},cpu={16 * gpus},gres/gpu={gpus},gres/gpu:h100={gpus},node={kind.nodes}"
        row = f"{job_id}|train|{state}|{code}|{ends}|{names}|{tres}"
        self.rows += [row, row.replace(f"{job_id}|train", f"{job_id}.batch|batch")]

    def _log(
        self, kind: Kind, gpus: int, times: np.ndarray, start: datetime, rng: np.random.Generator, *, restarts: bool
    ) -> tuple[str, float, float]:
        """The text, the seconds from the start to the end, and those of the steps up to the last checkpoint."""
        gbs = 4 * gpus
        fields = {"gpus": gpus, "gbs": gbs, "tp": kind.tp, "dp": gpus // kind.tp, "layers": kind.layers}
        fields |= {"hidden": 2048, "ffn": 8192, "heads": 16, "steps": self.steps}
        fields |= {"bf16": kind.precision == "bf16", "fp16": kind.precision == "fp16"}
        lines, passed, saved, kept_s = [HEADER.format(**fields)], START_UP_S, 0, 0.0
        crash = int(rng.integers(2, len(times) - 1)) if restarts else 0
        step = 0
        while step < len(times):
            passed += float(times[step])
            step += 1
            date = start + timedelta(seconds=passed)
            line = STEP.format(
                date=f"{date:%Y-%m-%d %H:%M:%S.%f}", step=step, steps=self.steps, samples=step * gbs,
                ms=1000 * times[step - 1], gbs=gbs, loss=9 - step / 100, norm=rng.uniform(0.5, 1.5),
            )  # fmt: skip
            lines.append(line)
            if self.save_every and step % self.save_every == 0 and step < len(times):
                passed += float(rng.uniform(0.5, 3.0))
                saved, kept_s = step, float(times[:step].sum())
                lines.append(SAVED.format(step))
            if step == crash:
                passed += float(rng.uniform(20, 200)) + START_UP_S
                lines += [CRASH, HEADER.format(**fields)]
                crash, step = 0, saved
        return "".join(lines), passed, kept_s
