"""torchtitan: one line per log interval, colours between the fields, a rate and no
time.

    [rank0]:[titan] 2026-04-18 21:13:38,990 - root - INFO - step: 10  loss: 11.63459  grad_norm: 10.4704
    memory: 29.11GiB(92.83%)  tps: 71,634  tflops: 48.68  mfu: 15.60%                      (on one line)

``tps`` (``wps`` in 2024) is tokens/s of one device, a mean since the line before.
Validation prints the same fields after ``validate step:``. Source: pytorch/torchtitan
torchtitan/components/metrics.py.
"""

import re
from collections.abc import Iterator
from math import prod

from benchrun.logs.dialect import NUMBER, PERCENT, Dialect, Reading, Record, Value, columns, groups
from benchrun.logs.numerals import fact_of, number
from benchrun.logs.rows import Rows

from .model import NEEDLES, read_model

# A fork's ranks without the last stage print no loss.
_STEP = re.compile(
    r"(?<!validate )\bstep:\s*(?P<step>\d{1,15})\s+((?:loss|grad_norm|memory):.{0,400})"
)
_FIELD = re.compile(r"\b(\w{1,24}):\s{1,16}(\S{1,40})(?=\s|$)")
_THOUSANDS = re.compile(r"\d{1,3}(?:,\d{3})*(?:\.\d+)?")
_SCHEDULE = re.compile(
    r"pipeline schedule \w{1,40} with (\d{1,6}) microbatches and (\d{1,6}) stages\b"
)
_START = re.compile(r"Training starts at step (\d{1,15})\b")
_END = "Training completed"
_CLOCK = re.compile(r"\b20\d\d-\d\d-\d\d \d\d:\d\d:\d\d\b")
_MESH = re.compile(r"\b(pp|dp|dp_replicate|dp_shard|cp|tp|ep)=(\d{1,9})\b")
_TOKENS = re.compile(
    r"(\d{1,15}) tokens per train step, .{0,80}\bmaximum context length (\d{1,9})\b"
)
_TOTAL = re.compile(r"Trainer is initialized with .{1,300}, total steps (\d{1,15})\b")
_LOW = re.compile(
    r"\b(?P<bits>Float8|MXFP8|NVFP4) (?:[\w ]{1,40} )?(?:training|converter) active\b"
    r"(?: with recipe (?P<recipe>\w{1,40}))?"
    r"|\b(?:Converted Linear layers|Swapped) to (?P<layers>Float8|MX|MXFP8|NVFP4)Linear\b"
)
"""Products below 16 bits; until 2025 MX formats were announced as Float8 as well."""
_LORA = "LoRA training active"
_DIMENSIONS = re.compile(
    r"-D device mesh with \[([\w', ]{1,200})\], \[(\d{1,9}(?:, \d{1,9}){0,9})\]"
)


def grouped(text: str) -> float | None:
    """``1,234.56`` -> 1234.56; None unless the groups are whole."""
    # Small numbers are printed without groups, and so is every number of some forks.
    return number(text.replace(",", "") if _THOUSANDS.fullmatch(text) else text)


_GROUPED = Reading(grouped, r"\d{1,3}(?:,\d{3})*(?:\.\d+)?", plain=False)
_NAMES = {
    "loss": ("loss", NUMBER),
    "grad_norm": ("grad_norm", NUMBER),
    **dict.fromkeys(("tps", "wps"), ("tokens_per_s_per_gpu", _GROUPED)),
    "tflops": ("tflops_per_gpu", _GROUPED),
}


class Torchtitan(Dialect):
    """torchtitan since 2024."""

    name = "torchtitan"
    step_needles = (b"tps: ", b"wps: ", _END.encode())
    end_words = _END
    fact_needles = (
        b"local batch size ",
        b" tokens per train step, ",
        b"with parallelism: ",
        b"-D device mesh with [",
        *NEEDLES,
        b"Float8 ",
        b"MXFP8 ",
        b"NVFP4 ",
        b"Converted Linear layers to ",
        b"Swapped to MXLinear",
        b"LoRA training active",
        b"pipeline schedule ",
        b" capacity: ",
        b"torchtitan version: ",
        b"Training starts at step ",
        _END.encode(),
    )
    closing = ("%", "N/A")
    fact_groups = (
        re.compile(
            r"Training starts at step \d+, with local batch size (?P<mbs>\d{1,9}), global batch size (?P<gbs>\d{1,9}), "
            r"sequence length (?P<seq_length>\d{1,9}), total steps (?P<planned_steps>\d{1,15})\b"
        ),
        re.compile(
            r"initialized with local batch size (?P<mbs>\d{1,9}), global batch size (?P<gbs>\d{1,9}), "
            r"gradient[ _]accumulation[ _]steps:? \d{1,9}, sequence length (?P<seq_length>\d{1,9})\b"
        ),
        re.compile(r"(?:CUDA|XPU|HIP) capacity: (?P<device>.{1,80}?) with "),
        re.compile(r"torchtitan version: (?P<framework_version>\d[\w.+]*)"),
    )
    averages = ("rows",)
    placeholder_loss = True
    fallback_peak_tflops = 312.0  # an A100 in BF16
    _micro_batches = 1
    _total: int | None = None
    """Planned steps, as the trainer states them."""
    _completed, _started = "", ""
    """Lines of the end, and of the last start at the first step after it."""
    printed_conventions = ("full", "causal")

    def records(self, text: str) -> Iterator[Record]:
        """The step of a line."""
        match = _STEP.search(text)
        matches = list(_FIELD.finditer(text, match.start(2), match.end(2))) if match else []
        # Other fields follow the rate: if none does, the line is damaged, and the
        # number may be too.
        if match is None or not matches or matches[-1][1] in ("tps", "wps"):
            return
        pieces = {field[1]: Value(field[1], field[2], field.start(2)) for field in matches}
        share = pieces.pop("mfu", None)  # N/A under FP8
        values = [*groups(match), *columns(pieces, _NAMES)]
        time = pieces.get("elapsed_time_per_step")  # printed by Ascend's torchtitan-npu
        if time is not None and time.text.endswith("s"):
            values.append(Value("step_time_s", time.text[:-1], time.start, NUMBER))
        if share is not None and share.text.endswith("%"):
            values.append(Value("mfu", share.text[:-1], share.start, PERCENT))
        yield Record(values, needs="tokens_per_s_per_gpu")

    def read_facts(self, text: str) -> None:
        """Read what is printed of the run before the first step."""
        super().read_facts(text)
        facts = self.facts
        read_model(text, facts)
        self._read_ends(text)
        self._read_mesh(text)
        if _LORA in text:
            facts.task = "lora"
        elif low := _LOW.search(text):
            kind = f"{low['bits']} {low['recipe']} {low['layers']}".lower()
            facts.switch("fp4" if "fp4" in kind else "fp8", kind)
        elif batch := _TOKENS.search(text):  # since August 2026
            tokens, length = map(int, batch.groups())
            facts.seq_length = fact_of("seq_length", length)
            facts.gbs = (
                fact_of("gbs", tokens // length) if length and tokens % length == 0 else None
            )
        elif schedule := _SCHEDULE.search(text):
            self._micro_batches, stages = map(int, schedule.groups())
            facts.vp = stages // facts.pp if facts.pp and stages % facts.pp == 0 else None
        elif "local batch size " in text and facts.mbs and self._micro_batches:
            # The batch that a rank's pipeline divides into micro-batches.
            facts.mbs = (
                facts.mbs // self._micro_batches if facts.mbs % self._micro_batches == 0 else None
            )

    def _read_ends(self, text: str) -> None:
        """Read the line where the training begins or ends, or that states the planned
        steps.
        """
        if _END in text:
            self._completed = text
        if (start := _START.search(text)) is not None and int(start[1]) == self.first_number:
            self._started = text if self._completed else ""
        if total := _TOTAL.search(text):
            self._total = fact_of("planned_steps", int(total[1]))

    def _read_mesh(self, text: str) -> None:
        """The layout, in either form."""
        facts = self.facts
        if "with parallelism: " in text:
            sizes = {name: int(size) for name, size in _MESH.findall(text)}
            facts.tp = sizes.get("tp")
            facts.pp = sizes.get("pp")
            facts.cp = sizes.get("cp")
            facts.take("dp", prod(size for name, size in sizes.items() if name.startswith("dp")))
            facts.ep = sizes.get("ep")
            # Expert parallelism uses the ranks of the other dimensions.
            gpus = prod(size for name, size in sizes.items() if name != "ep")
            facts.num_gpus = gpus if 0 < gpus < 10**7 else None
        elif mesh := _DIMENSIONS.search(text):
            self._active_dimensions(
                re.findall(r"\w+", mesh[1]), list(map(int, mesh[2].split(", ")))
            )

    def _active_dimensions(self, names: list[str], sizes: list[int]) -> None:
        """Take the mesh as printed until 2025: only what is larger than one rank."""
        facts, degrees, gpus = self.facts, dict(zip(names, sizes, strict=False)), prod(sizes)
        if len(names) == len(sizes) and 0 < gpus < 10**7 and facts.num_gpus is None:
            facts.num_gpus = gpus
            facts.tp = degrees.get("tp", 1)
            facts.pp = degrees.get("pp", 1)
            facts.cp = degrees.get("cp", 1)
            # Expert parallelism divides the data-parallel ranks, and may take those of
            # cp and tp too.
            facts.ep = None if "dp_shard_in_ep" in degrees else 1

    def continued(self) -> Dialect:
        """The reader of the run's next file, which knows the planned steps."""
        following = super().continued()
        if isinstance(following, Torchtitan):
            following._total = self._total
        return following

    def finish(self) -> Rows:
        """The rows. The planned end counts if they break off before it.

        A run may also end before it by its own words, as its data do: then its end was
        another one than planned.
        """
        last = self.rows.last_step
        if self._total is not None and last is not None:
            self.facts.planned_steps = None if self.ended or last >= self._total else self._total
        return self.rows

    def begins_anew(self, before: Dialect) -> bool:
        """Whether "Training completed" was followed by a start at the first step.

        Of several nodes that share a file, lines may come late: then the start is dated
        before the end.
        """
        started, completed = _CLOCK.search(self._started), _CLOCK.search(self._completed)
        late = started and completed and started[0] < completed[0]
        return bool(self._started) and not (late and before.rows.repeats)
