"""torchtitan: components/metrics.py (`MetricsProcessor.log`), 2024 to 2026."""

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

from ..series import Checkpoint, Evaluation, Row
from ..truth import PEAKS, Truth
from .base import Form, Line

ESC = "\x1b"
COLOURS = ("[31m", "[32m", "[38;2;180;60;0m", "[38;2;54;234;195m", "[34m", "[36m", "[35m", "[39m")


@dataclass(frozen=True)
class Titan(Form):
    """`step: N  loss: X  memory: ...  tps: X  tflops: X  mfu: X%`; the rates are per device."""

    release: str = "0.2"
    gradient: bool = True
    mark: str | None = ","

    def states(self, truth: Truth) -> frozenset[str]:
        found = {"rates"} | ({"tflops"} if self.release != "2024" else set())
        if truth.states_setting:
            found |= {"num_gpus"}
            if self.release != "2024":
                found |= {"gbs", "seq_length"}
                # "total steps" is no promise, but what breaks off before it is not whole.
                found |= {"planned"} if truth.ending != "complete" else set()
        return frozenset(found)

    def resolution(self, truth: Truth) -> float:
        return 0.5 / truth.tokens_per_s_per_gpu

    def _say(self, text: str, part: str, truth: Truth, date: str = "2026-02-28 21:13:34,872") -> Line:
        logger = "root" if self.release != "0.2" else "torchtitan.observability.metrics"
        rank = truth.gpus - 1 if truth.pp > 1 else 0
        line = f"[titan] {date} - {logger} - INFO - {text}"
        return Line(f"[rank{rank}]:{line}", rank, part)

    def head(self, truth: Truth, random: Random) -> Iterator[Line]:
        if not truth.states_setting:
            return
        for text in self._setting(truth):
            yield self._say(text, "head", truth)

    def _setting(self, truth: Truth) -> Iterator[str]:
        if self.release == "2024":
            names = {"pp": truth.pp, "dp": truth.dp, "cp": truth.cp, "tp": truth.tp}
            mesh = {name: degree for name, degree in names.items() if degree > 1} or {"dp": 1}
            sizes = list(mesh.values())
            yield f"Building {len(mesh)}-D device mesh with {list(mesh)}, {sizes}"
        else:
            yield (
                f"Building device mesh with parallelism: pp={truth.pp}, dp_replicate=1, "
                f"dp_shard={truth.dp}, cp={truth.cp}, tp={truth.tp}, ep={truth.ep}, etp=1"
            )
        if truth.precision == "fp8":
            yield "Float8 training active with recipe rowwise"
        if truth.precision == "mxfp8":
            yield "Converted Linear layers to MXFP8Linear"
        if self.release != "2024":
            yield (
                f"Trainer is initialized with local batch size {truth.mbs}, global batch size "
                f"{truth.gbs}, gradient accumulation steps {truth.accumulation}, sequence length "
                f"{truth.seq_length}, total steps {truth.planned} (warmup 200)"
            )
            yield f"Training starts at step {truth.first_step}"

    def row(self, truth: Truth, row: Row) -> Iterator[Line]:
        tokens = row.gbs * truth.seq_length / row.seconds / truth.gpus
        printed = tokens * truth.rate_factor
        flops = truth.model.flops(truth.seq_length, causal=False)
        tflops = tokens * flops / 1e12 * truth.tflops_factor
        rate = "wps" if self.release == "2024" else "tps"
        peak = PEAKS[truth.gpu]["bf16"]
        mfu = f"{100 * tflops / peak:.2f}%"
        if truth.precision in ("fp8", "mxfp8"):
            mfu = "N/A"
        loss = f"{row.loss:7.4f}" if self.release != "0.2" else f"{row.loss:8.5f}"
        fields = [f"step: {row.step:2}", f"loss: {loss}"]
        if self.release != "2024":
            fields.append(f"grad_norm: {row.grad_norm:7.4f}")
        fields += ["memory: 60.12GiB(75.90%)", f"{rate}: {round(printed):,}"]
        if self.release != "2024":
            fields.append(f"tflops: {tflops:,.2f}")
        fields.append(f"mfu: {mfu}")
        yield self._say(self._coloured(fields, truth), "row", truth, self.date(truth, row))

    def _coloured(self, fields: list[str], truth: Truth) -> str:
        if truth.seed % 2:
            return "  ".join(fields)
        shades = COLOURS[: len(fields)]
        text = "  ".join(f"{ESC}{shade}{each}" for shade, each in zip(shades, fields, strict=True))
        return text + ESC + "[39m"

    def evaluation(self, truth: Truth, event: Evaluation) -> Iterator[Line]:
        tps = round(truth.tokens_per_s_per_gpu * 2.5)
        text = f"validate step: {event.step:2}  loss: {event.loss:7.4f}  "
        text += f"memory: 60.12GiB(75.90%)  tps: {tps:,}"
        yield self._say(text, "event", truth)

    def checkpoint(self, truth: Truth, event: Checkpoint) -> Iterator[Line]:
        text = f"Finished saving the checkpoint in {event.seconds:.2f} seconds."
        yield self._say(text, "event", truth)

    def end(self, truth: Truth) -> Iterator[Line]:
        yield self._say("Sleeping 2 seconds for other ranks to complete", "end", truth)
        yield self._say("Training completed", "end", truth)


NAME = frozenset({"torchtitan"})
PARTS = frozenset({"evaluation", "copies"})
FORMS = (
    Titan("torchtitan-2024", NAME, frozenset({"bf16", "fp32"}), (1, 10), release="2024", gradient=False),
    Titan("torchtitan-0.1", NAME, frozenset({"bf16", "fp8", "fp32"}), (1, 10), PARTS, release="0.1"),
    Titan("torchtitan-0.2", NAME, frozenset({"bf16", "fp8", "mxfp8", "fp32"}), (1, 10), PARTS),
)
