"""NeMo 1 (Lightning's bars after the printed configuration) and NeMo 2 (ProgressPrinter)."""

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

from ..series import Checkpoint, Evaluation, Row
from ..truth import Truth
from .bars import clock, meter
from .base import SETTING, Form, Line

PAD = 5


def padded(value: float | str) -> str:
    """A number as Lightning's bar has it: `Tqdm.format_num`, three digits, padded to 5 characters."""
    text = value if isinstance(value, str) else _three_digits(value)
    if "e" in text:
        return text
    if "." not in text and len(text) < PAD:
        if not isinstance(value, float):
            return text
        text += "."
    return text + "0" * (PAD - len(text))


def _three_digits(value: float) -> str:
    """`tqdm.format_num`: the shorter of three digits and all digits."""
    short = f"{value:.3g}".replace("e+0", "e+").replace("e-0", "e-")
    return min(short, str(value), key=len)


def groups(truth: Truth) -> Iterator[str]:
    """The lists of ranks of `nemo.lightning._strategy_lib`; ranks run over tp, cp, dp, then pp."""
    whole = range(truth.gpus)
    inner = truth.tp * truth.cp * truth.dp
    both = [[r for r in whole if (r % truth.tp, r // inner) == key] for key in _keys(truth)]
    data = [each[i :: truth.cp] for each in both for i in range(truth.cp)]
    context = [each[i : i + truth.cp] for each in both for i in range(0, len(each), truth.cp)]
    tensor = [list(whole[i : i + truth.tp]) for i in range(0, truth.gpus, truth.tp)]
    stages = [list(range(i, truth.gpus, inner)) for i in range(inner)]
    models = [[r for stage in stages[i : i + truth.tp] for r in stage] for i in range(0, inner, truth.tp)]
    yield f"Rank 0 has data parallel group : {data[0]}"
    yield f"Rank 0 has combined group of data parallel and context parallel : {both[0]}"
    yield f"All data parallel group ranks with context parallel combined: {both}"
    yield "Ranks 0 has data parallel rank: 0"
    yield f"Rank 0 has context parallel group: {context[0]}"
    yield f"All context parallel group ranks: {context}"
    yield "Ranks 0 has context parallel rank: 0"
    yield f"Rank 0 has model parallel group: {models[0]}"
    yield f"All model parallel group ranks: {models}"
    yield f"Rank 0 has tensor model parallel group: {tensor[0]}"
    yield f"All tensor model parallel group ranks: {tensor}"
    yield "Rank 0 has tensor model parallel rank: 0"
    yield f"Rank 0 has pipeline model parallel group: {stages[0]}"
    yield f"Rank 0 has embedding group: {stages[0][:1]}"
    yield f"All pipeline model parallel group ranks: {stages}"
    yield "Rank 0 has pipeline model parallel rank 0"


def _keys(truth: Truth) -> list[tuple[int, int]]:
    """Tensor rank and stage of each data-parallel group."""
    return [(t, p) for p in range(truth.pp) for t in range(truth.tp)]


INERT = {
    "gc_interval": (0, 100),
    "seed": (1234, 42),
    "sequence_parallel": ("false", "true"),
    "overlap_p2p_comm": ("false", "true"),
    "ub_tp_comm_overlap": ("false", "true"),
    "activations_checkpoint_granularity": ("null", "selective"),
    "hidden_dropout": ("0.1", "0.0"),
    "attention_dropout": ("0.1", "0.0"),
    "megatron_amp_O2": ("false", "true"),
    "gradient_accumulation_fusion": ("false", "true"),
    "fp8_amax_history_len": ("1024", "16"),
    "layernorm_epsilon": ("1.0e-05", "1.0e-06"),
    "apply_rope_fusion": ("false", "true"),
    "use_flash_attention": ("true", "false"),
}


@dataclass(frozen=True)
class Nemo1(Form):
    """`Epoch 0: :  47%|####7     | 7/15 [06:19<07:13, ..., train_step_timing in s=49.50]`."""

    glued: bool = True
    """Bars of the whole run in one line, between carriage returns."""
    loss_digits: int = 3

    def states(self, truth: Truth) -> frozenset[str]:
        setting = SETTING if truth.states_setting else set()
        return frozenset({"planned", "step_s"} | setting)

    def resolution(self, truth: Truth) -> float:
        """Three significant digits."""
        unit = 10.0 ** (len(str(int(truth.step_s))) - 3) if truth.step_s >= 1 else 0.001
        return unit / 2 / truth.step_s

    def head(self, truth: Truth, random: Random) -> Iterator[Line]:
        if not truth.states_setting:
            return
        for text in self._configuration(truth, random):
            yield Line(text, 0, "head")
        for text in groups(truth):
            yield Line("[NeMo I 2024-11-01 10:00:01 megatron_init:269] " + text, 0, "head")

    def _configuration(self, truth: Truth, random: Random) -> Iterator[str]:
        m = truth.model
        bits = {"fp16": "16-mixed", "fp32": "32"}.get(truth.precision, "bf16-mixed")
        nodes = max(truth.gpus // 8, 1)
        yield "[NeMo I 2024-11-01 10:00:00 exp_manager:396] "
        yield "    "
        yield "    ************** Experiment configuration ***********"
        yield "[NeMo I 2024-11-01 10:00:00 megatron_gpt_pretraining:31] "
        yield from ("    name: megatron_gpt", "    trainer:")
        yield from (f"      devices: {truth.gpus // nodes}", f"      num_nodes: {nodes}")
        yield from (f"      precision: {bits}", f"      max_steps: {truth.planned}")
        yield from ("      log_every_n_steps: 1", "    model:", "      mcore_gpt: true")
        values = {
            "micro_batch_size": truth.mbs,
            "global_batch_size": truth.gbs,
            "tensor_model_parallel_size": truth.tp,
            "pipeline_model_parallel_size": truth.pp,
            "context_parallel_size": truth.cp,
            "expert_model_parallel_size": truth.ep,
            "encoder_seq_length": truth.seq_length,
            "max_position_embeddings": truth.seq_length,
            "num_layers": m.layers,
            "hidden_size": m.hidden,
            "ffn_hidden_size": m.ffn,
            "num_attention_heads": m.heads,
            "num_query_groups": m.kv_heads,
            "kv_channels": m.head_dim,
            "activation": "fast-swiglu" if m.gated else "gelu",
            "share_embeddings_and_output_weights": str(m.tied).lower(),
            "override_vocab_size": m.vocab,
            "fp8": str(truth.precision == "fp8").lower(),
            "fp8_hybrid": str(truth.precision == "fp8").lower(),
        }
        changed = set(random.sample(sorted(INERT), min(truth.inert, len(INERT))))
        values |= {name: both[name in changed] for name, both in INERT.items()}
        if m.experts:
            values |= {"num_moe_experts": m.experts, "moe_router_topk": m.topk}
        for name, value in values.items():
            yield f"      {name}: {value}"
        yield from ("      data:", "        data_impl: mock", f"        seq_length: {truth.seq_length}")

    def _bar(self, truth: Truth, row: Row, index: int) -> str:
        done = row.step
        left = clock((truth.planned - done) * row.seconds)
        words = [
            f"reduced_train_loss={padded(row.loss)}",
            f"global_step={padded(float(done - 1))}",
            f"consumed_samples={padded(float(row.samples))}",
            f"train_step_timing in s={padded(row.seconds)}",
        ]
        if truth.seed % 3 == 0:
            words.insert(0, "v_num=gjbq")
        share = f"{100 * done / truth.planned:3.0f}%"
        times = f"[{clock(row.elapsed)}<{left}"
        head = f"Epoch 0: : {share}|{meter(done, truth.planned)}| {done}/{truth.planned} "
        return head + times + ", " + ", ".join(words) + "]"

    def row(self, truth: Truth, row: Row) -> Iterator[Line]:
        text = self._bar(truth, row, row.step)
        yield Line("\r" + text if self.glued else text, glued=self.glued)

    def evaluation(self, truth: Truth, event: Evaluation) -> Iterator[Line]:
        words = [
            f"\rValidation DataLoader 0: {10 * i:3d}%|{meter(i, 10)}| {i}/10 [00:0{i % 10}<00:01]" for i in range(1, 11)
        ]
        for each in words:
            yield Line(each if self.glued else each[1:], 0, "event", self.glued)

    def end(self, truth: Truth) -> Iterator[Line]:
        yield Line("", 0, "end")
        yield Line(f"`Trainer.fit` stopped: `max_steps={truth.planned}` reached.", 0, "end")


def four_digits(value: float) -> str:
    """A number as ProgressPrinter has it: an integer, or four significant digits."""
    return str(int(value)) if value.is_integer() else f"{value:.4}"


@dataclass(frozen=True)
class Nemo2(Form):
    """`Training epoch 0, iteration 3/99 | lr: ... | train_step_timing in s: 12.64 | ...`."""

    rates: bool = False
    convention: str = "full"
    loss_digits: int = 4
    zero_based: bool = True

    def states(self, truth: Truth) -> frozenset[str]:
        found = {"planned", "step_s", "gbs"}
        if truth.states_setting:
            found |= {"num_gpus", "layout"}
        if self.rates and truth.prints_tflops and not truth.lora:
            found.add("tflops")
        if self.rates and truth.prints_rates:
            found.add("rates")
        return frozenset(found)

    def resolution(self, truth: Truth) -> float:
        return 0.0005

    def head(self, truth: Truth, random: Random) -> Iterator[Line]:
        stamp = "[NeMo I 2026-11-25 21:01:26 nemo_logging:393] "
        for text in groups(truth) if truth.states_setting else ():
            yield Line(stamp + text, 0, "head")
        yield Line(stamp + f"Copying Trainer's 'max_steps' ({truth.planned}) to LR scheduler's 'max_steps'.", 0, "head")
        if truth.lora:
            yield Line(stamp + " > number of trainable parameters: 20971520 (0.26% of total)", 0, "head")
        bits = f"fp16={truth.precision == 'fp16'}, bf16={truth.precision not in ('fp16', 'fp32')}"
        text = f"OptimizerConfig(optimizer='adam', lr=3e-06, fp8_recipe='delayed', {bits})"
        yield Line(f"[NeMo I 2026-11-25 21:01:30 utils:661] Setting up optimizer with config {text}", 0, "head")

    def row(self, truth: Truth, row: Row) -> Iterator[Line]:
        step = row.step - 1
        words = [
            f"Training epoch 0, iteration {step}/{truth.planned - 1}",
            "lr: 3e-06",
            f"global_batch_size: {row.gbs}",
            f"global_step: {step}",
            f"reduced_train_loss: {four_digits(row.loss)}",
            f"train_step_timing in s: {four_digits(row.seconds)}",
        ]
        tokens = row.gbs * truth.seq_length / row.seconds / truth.gpus
        if "tflops" in self.states(truth):
            flops = truth.model.flops(truth.seq_length, self.convention == "causal")
            words.append(f"TFLOPS_per_GPU: {four_digits(tokens * flops / 1e12 * truth.tflops_factor)}")
        if "rates" in self.states(truth):
            words.append(f"tokens_per_sec_per_gpu: {four_digits(tokens * truth.rate_factor)}")
        if step != truth.first_step - 1:
            words.append(f"consumed_samples: {row.samples}")
        yield Line(" | ".join(words))

    def evaluation(self, truth: Truth, event: Evaluation) -> Iterator[Line]:
        for i in range(1, 4):
            yield Line(f"Validation: iteration {i}/3", 0, "event")

    def checkpoint(self, truth: Truth, event: Checkpoint) -> Iterator[Line]:
        yield Line(
            "[NeMo I 2026-11-25 21:09:30 nemo_logging:393] "
            f"Scheduled async checkpoint save for /ckpt/step={event.step}",
            0,
            "event",
        )

    def end(self, truth: Truth) -> Iterator[Line]:
        yield Line(f"`Trainer.fit` stopped: `max_steps={truth.planned}` reached.", 0, "end")


ONE, TWO = frozenset({"nemo1"}), frozenset({"nemo2"})
BITS = frozenset({"bf16", "fp16", "fp8"})
FORMS = (
    Nemo1("nemo1", ONE, BITS, (1,), frozenset({"evaluation"})),
    Nemo1("nemo1-lines", ONE, BITS, (1,), frozenset({"evaluation"}), glued=False),
    Nemo2("nemo2", TWO, BITS | {"mxfp8", "nvfp4"}, (1,), frozenset({"evaluation", "checkpoint", "lora", "restart"})),
    Nemo2("nemo2-rates", TWO, BITS, (1,), frozenset({"evaluation", "checkpoint"}), rates=True),
)
