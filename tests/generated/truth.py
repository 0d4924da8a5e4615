"""The truth that a generated log is written from: the model, the job, its steps and its end."""

from dataclasses import dataclass

PEAKS = {
    "A100": {"fp16": 312, "bf16": 312},
    "H100": {"fp16": 989, "bf16": 989, "fp8": 1979},
    "H200": {"fp16": 989, "bf16": 989, "fp8": 1979},
    "B200": {"fp16": 2250, "bf16": 2250, "fp8": 4500, "mxfp8": 4500, "nvfp4": 9000},
    "GB200": {"fp16": 2500, "bf16": 2500, "fp8": 5000, "mxfp8": 5000, "nvfp4": 10000},
    "B300": {"fp16": 2250, "bf16": 2250, "fp8": 4500, "mxfp8": 4500, "nvfp4": 13500},
}
"""Dense peak in TFLOPS by GPU and precision, from the vendors' datasheets. FP32 has no entry."""

PRECISIONS = ("fp32", "fp16", "bf16", "fp8", "mxfp8", "nvfp4")
OPTION = {"mxfp8": "fp8"}
"""The product's name of a precision, where it is another."""


@dataclass(frozen=True)
class Latent:
    """Multi-head latent attention (DeepSeek): ranks and widths of one head."""

    q_rank: int = 1536
    kv_rank: int = 512
    qk: int = 128
    rope: int = 64
    v: int = 128


@dataclass(frozen=True)
class Model:
    """A decoder's dimensions; what a feature does not use is 0 or None."""

    layers: int
    hidden: int
    ffn: int
    heads: int
    kv_heads: int
    head_dim: int
    vocab: int
    gated: bool = True
    tied: bool = False
    recipe: str | None = None
    experts: int = 0
    topk: int = 0
    expert_ffn: int = 0
    shared_ffn: int = 0
    latent: Latent | None = None
    window: int | None = None
    mtp: int = 0

    def attention_products(self) -> int:
        """Multiply-adds per token of one layer's projections."""
        if self.latent is None:
            width = self.heads * self.head_dim
            return self.hidden * (2 * width + 2 * self.kv_heads * self.head_dim)
        a = self.latent
        queries = self.hidden * a.q_rank + a.q_rank * self.heads * (a.qk + a.rope)
        keys = self.hidden * (a.kv_rank + a.rope) + a.kv_rank * self.heads * (a.qk + a.v)
        return queries + keys + self.heads * a.v * self.hidden

    def mlp_products(self) -> int:
        """Multiply-adds per token of one layer's MLP or of its active experts; the router is left out."""
        matrices = 3 if self.gated else 2
        if not self.experts:
            return matrices * self.hidden * self.ffn
        return matrices * self.hidden * (self.topk * self.expert_ffn + self.shared_ffn)

    def score_products(self, seq: int, causal: bool) -> float:
        """Multiply-adds per token of one layer's scores and of their product with the values."""
        seen = seq / 2 if causal else float(seq)
        if self.window and self.window < seq:
            reach = self.window * (1 - self.window / (2 * seq))
            seen = min(seen, reach) if causal else min(seen, float(self.window))
        if self.latent:
            return seen * self.heads * (self.latent.qk + self.latent.rope + self.latent.v)
        return 2 * seen * self.heads * self.head_dim

    def flops(self, seq: int, causal: bool, passes: int = 3) -> float:
        """FLOPs per token of a training step; ``passes`` is 2 where the weights are frozen.

        A head of multi-token prediction has a layer, a projection of twice the width and the logits.
        """
        layer = self.attention_products() + self.mlp_products()
        linear = (self.layers + self.mtp) * layer
        linear += (1 + self.mtp) * self.hidden * self.vocab + self.mtp * 2 * self.hidden**2
        scores = (self.layers + self.mtp) * self.score_products(seq, causal)
        return 2 * (passes * linear + 3 * scores)


@dataclass(frozen=True)
class Given:
    """The options that the user types; None is not typed."""

    recipe: str | None = None
    gpu: str | None = None
    precision: str | None = None
    num_gpus: int | None = None
    seq_length: int | None = None
    gbs: int | None = None


@dataclass(frozen=True)
class Truth:
    """One job, as it was, and what is said wrongly about it."""

    form: str
    model: Model
    gpu: str = "H100"
    tp: int = 1
    pp: int = 1
    cp: int = 1
    dp: int = 8
    ep: int = 1
    precision: str = "bf16"
    seq_length: int = 4096
    mbs: int = 1
    accumulation: int = 4
    step_s: float = 2.0
    noise: float = 0.002
    warmup: int = 2
    first_step: int = 1
    rows: int = 24
    interval: int = 1
    stalls: tuple[int, ...] = ()
    evaluations: tuple[int, ...] = ()
    checkpoints: tuple[int, ...] = ()
    restart: tuple[int, int] | None = None
    """The row after which the job died, and the row from which it went on."""
    ramp: int = 0
    """Rows at the beginning with half of the batch."""
    loss: str = "sound"
    """sound, constant, nan, nan_gradient, zero_gradient, repeated (a few equal values), no_norm (zero is printed)."""
    lora: bool = False
    exotic: str | None = None
    """An option that changes the work and that no dimension shows."""
    ending: str = "complete"
    """complete, cut, truncated, or a class of crash."""
    crash: int = 0
    """Which of the class's wordings."""
    second_job: bool = False
    """Another job, half as fast, writes into the same file."""
    trained_before: bool = False
    """A complete job of the same work, half as fast, wrote into the file before."""
    newest_first: bool = False
    """The file has its last line first, as some collectors show logs."""
    copies: int = 1
    """Processes that print every step, with clocks of their own."""
    backlog: bool = False
    """The first steps are only queued: they seem to take no time, and a later one all of it (JAX)."""
    inflated: bool = False
    """The total batch that the log states counts tensor-parallel ranks too (older transformers)."""
    rate_factor: float = 1.0
    """Printed tokens/s and samples/s over the true ones."""
    tflops_factor: float = 1.0
    beside_factor: float = 1.0
    """A second statement of the speed, on another line or of all steps so far, over the true one."""
    dates_factor: float = 1.0
    """Seconds between the dates that the framework prints over the true ones."""
    mfu: float = 0.4
    prints_tflops: bool = True
    prints_rates: bool = True
    states_setting: bool = True
    """The framework printed its configuration before the first step."""
    inert: int = 0
    """How many options without effect on the work are set away from their defaults."""
    wrapper: str = "plain"
    typed: tuple[str, ...] = ()
    """Options that the user types."""
    wrong: str | None = None
    """The option that is typed wrongly: twice the number, another precision."""
    impossible: bool = False
    """The user types a precision that the typed GPU does not have."""
    seed: int = 0

    @property
    def given(self) -> Given:
        """The options with their values."""
        bits = OPTION.get(self.precision, self.precision)
        values = {
            "recipe": self.model.recipe,
            "gpu": self.gpu,
            "precision": bits,
            "num_gpus": self.gpus,
            "seq_length": self.seq_length,
            "gbs": self.gbs,
        }
        if self.wrong == "precision":
            values["precision"] = "bf16" if bits not in ("bf16", "fp32") else "fp16"
        elif self.wrong:
            values[self.wrong] = 2 * int(values[self.wrong] or 0)
        names = {*self.typed, self.wrong} - {None}
        if self.impossible:
            values |= {"gpu": "A100", "precision": "fp8"}
            names |= {"gpu", "precision"}
        return Given(**{name: value for name, value in values.items() if name in names})

    @property
    def gpus(self) -> int:
        return self.tp * self.pp * self.cp * self.dp

    @property
    def gbs(self) -> int:
        return self.dp * self.mbs * self.accumulation

    @property
    def planned(self) -> int:
        """The last planned step of the job."""
        last = self.first_step - 1 + self.rows * self.interval
        return last if self.ending == "complete" else last + 40 * self.interval

    @property
    def tokens_per_s_per_gpu(self) -> float:
        return self.gbs * self.seq_length / self.step_s / self.gpus

    def tflops(self, causal: bool) -> float:
        """TFLOPS per GPU of the true step."""
        per_token = self.model.flops(self.seq_length, causal, 2 if self.lora else 3)
        return self.tokens_per_s_per_gpu * per_token / 1e12

    @property
    def peak(self) -> float | None:
        """Dense peak in TFLOPS; None where the table has none."""
        return PEAKS[self.gpu].get(self.precision)
