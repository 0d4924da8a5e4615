"""A truth from a source of randomness: `random.Random`, or Hypothesis's, which then shrinks it."""

from dataclasses import replace
from random import Random

from .endings import CRASHES
from .forms import ALL
from .forms.base import Form
from .forms.megatron import EXOTIC
from .truth import PEAKS, PRECISIONS, Latent, Model, Truth
from .wrap import WRAPPERS

MODELS = (
    Model(32, 4096, 14336, 32, 8, 128, 128256, recipe="llama3.1-8b"),
    Model(32, 4096, 11008, 32, 32, 128, 32000, recipe="llama2-7b"),
    Model(40, 5120, 13824, 40, 40, 128, 32000, recipe="llama2-13b"),
    Model(80, 8192, 28672, 64, 8, 128, 128256, recipe="llama3-70b"),
    Model(96, 12288, 49152, 96, 96, 128, 51200, gated=False, tied=True, recipe="gpt3-175b"),
    Model(32, 6144, 24576, 48, 8, 128, 256000, gated=False, recipe="nemotron4-15b"),
    Model(24, 2048, 8192, 16, 4, 128, 50304),
    Model(48, 5120, 25600, 40, 8, 128, 151936),
)
MIXTURES = (
    Model(32, 4096, 14336, 32, 8, 128, 32000, recipe="mixtral-8x7b", experts=8, topk=2, expert_ffn=14336),
    Model(24, 2048, 8192, 16, 4, 128, 151936, experts=64, topk=6, expert_ffn=1408),
)
CONTRADICTIONS = ("rate", "tflops", "dates", "option", "refuted", "impossible")
SAID_TWICE = ("deepspeed", "bridge")
"""Forms that state the speed of a step twice."""
SCENARIOS = {
    "sound": 39,
    "crash": 13,
    "cut": 4,
    "truncated": 4,
    "loss": 8,
    "second": 4,
    "newest": 2,
    "again": 2,
    "rate": 5,
    "tflops": 4,
    "dates": 3,
    "option": 5,
    "refuted": 3,
    "impossible": 2,
    "exotic": 2,
}
"""What may be wrong with a log, and how often in a hundred."""


def _model(random: Random, form: Form, precision: str) -> Model:
    """A model that the form can state; in FP32 a small one."""
    if precision == "fp32":
        return random.choice([model for model in MODELS if model.hidden <= 4096])
    parts = sorted(form.features & {"moe", "shared", "mla", "window", "mtp"})
    part = random.choice(parts) if parts and random.random() < 0.45 else None
    if part == "moe":
        return random.choice(MIXTURES)
    base = random.choice(MODELS)
    if part is None:
        return base
    changes = {
        "shared": {"experts": 64, "topk": 6, "expert_ffn": 1408, "shared_ffn": 2816},
        "mla": {"latent": Latent(), "heads": 32, "kv_heads": 32},
        "window": {"window": 512},
        "mtp": {"mtp": random.choice((1, 2))},
    }[part]
    return replace(base, recipe=None, **changes)


def _layout(random: Random) -> dict[str, int]:
    return {
        "tp": random.choice((1, 1, 2, 4, 8)),
        "pp": random.choice((1, 1, 2, 4)),
        "cp": random.choice((1, 1, 1, 2)),
        "dp": random.choice((1, 2, 4, 8, 16)),
        "mbs": random.choice((1, 1, 2, 4)),
        "accumulation": random.choice((2, 4, 8, 16)),
    }


def says_its_end(truth: Truth) -> bool:
    """Whether the log shows that all of a job's work is done: by planned steps, or MLPerf's own words."""
    return truth.form.startswith("mllog") or "planned" in ALL[truth.form].states(truth)


def _scenario(random: Random) -> str:
    return random.choices(list(SCENARIOS), list(SCENARIOS.values()))[0]


def _speed(random: Random, truth: Truth) -> float:
    """Seconds of a step at a plausible rate: 15 to 55 % of the peak, less in FP32."""
    rate = truth.peak * random.uniform(0.15, 0.55) if truth.peak else random.uniform(6, 15)
    tokens = truth.gbs * truth.seq_length / truth.gpus
    flops = truth.model.flops(truth.seq_length, True, 2 if truth.lora else 3)
    return tokens * flops / rate / 1e12


def _timed(random: Random, truth: Truth) -> Truth:
    """The truth with a step of 0.3 to 150 s: a batch of fewer or more micro-batches.

    Where the clock has whole seconds the job takes a minute at least.
    """
    seconds = _speed(random, truth)
    least = 60 / (truth.rows * truth.interval) if ALL[truth.form].bars else 0.3
    while seconds > 150 and truth.accumulation > 1:
        truth = replace(truth, accumulation=truth.accumulation // 2)
        seconds /= 2
    while seconds < max(least, 0.3):
        truth = replace(truth, accumulation=truth.accumulation * 2)
        seconds *= 2
    return replace(truth, step_s=round(seconds, 4))


def _events(random: Random, form: Form, rows: int) -> dict[str, object]:
    """Pauses, a restart, a ramp, stalls: all of them are part of sound jobs."""
    found: dict[str, object] = {}
    kind = random.choice(("none", "evaluation", "checkpoint", "restart", "ramp", "stall", "other"))
    if kind == "evaluation" and kind in form.features:
        found["evaluations"] = tuple(range(rows // 4, rows, rows // 4))
    if kind == "checkpoint" and kind in form.features:
        found["checkpoints"] = tuple(range(rows // 3, rows, rows // 3))
    if kind == "restart" and kind in form.features:
        found["restart"] = (rows // 2, rows // 2 - random.randint(1, 3))
    if kind == "ramp" and kind in form.features:
        found["ramp"] = 3
    if kind == "other":
        found["backlog"] = "backlog" in form.features and random.random() < 0.5
        found["inflated"] = "inflated" in form.features
        found["copies"] = 2 if "copies" in form.features else 1
    if kind == "stall":
        found["stalls"] = (rows - 4,)
    return found


def typed_rightly(truth: Truth, random: Random, everything: bool) -> tuple[str, ...]:
    """Options that the user types: all that the log does not state, or some."""
    form = ALL[truth.form]
    states = form.states(truth)
    found = set()
    for name in (*SETTING, "gpu", "precision"):
        if random.random() < (0.25 if name in states else 1.0 if everything else 0.6):
            found.add(name)
    if truth.model.recipe and random.random() < (0.3 if "model" in states else 0.9):
        found.add("recipe")
    if "recipe" in found and "seq_length" not in states:
        found.add("seq_length")  # a recipe has a length of its own
    if form.quotient and truth.gpus != truth.dp:
        found.add("num_gpus")
    return tuple(sorted(found))


SETTING = ("num_gpus", "seq_length", "gbs")


def _completed(truth: Truth) -> Truth:
    """The truth with everything typed that its log does not state: what is wrong is visible."""
    states = ALL[truth.form].states(truth)
    wanted = {name for name in SETTING if name not in states}
    if "model" not in states and truth.model.recipe:
        wanted.add("recipe")
    return replace(truth, typed=tuple(sorted({*truth.typed, *wanted})))


def _contradicted(truth: Truth, scenario: str, random: Random) -> Truth:
    """The truth with a contradiction; the sound truth where the form cannot show it."""
    states = ALL[truth.form].states(truth)
    if scenario == "rate" and {"rates", "step_s"} <= states:
        return replace(_completed(truth), rate_factor=random.choice((0.5, 2.0, 1.1, 0.9)))
    if scenario == "rate" and truth.form in SAID_TWICE:
        return replace(truth, beside_factor=random.choice((0.5, 2.0)))
    known = "model" in states or truth.model.recipe
    plain = not truth.lora and known
    if scenario == "tflops" and plain and {"tflops", "step_s"} <= states:
        hardware = truth.form == "megatron-deepspeed"  # may count a recomputed pass
        return replace(_completed(truth), tflops_factor=random.choice((0.4, 2.5) if hardware else (0.5, 2.0)))
    if scenario == "dates" and ALL[truth.form].mark is not None:
        return replace(_completed(truth), dates_factor=random.choice((0.5, 0.7, 1.5, 2.0)))
    stated = sorted(states & {"num_gpus", "seq_length", "gbs", "precision"})
    if scenario == "option" and stated:
        return replace(truth, wrong=random.choice(stated))
    unstated = sorted({"num_gpus", "seq_length", "gbs"} - states)
    if scenario == "refuted" and unstated and {"rates", "step_s"} <= states:
        return replace(_completed(truth), wrong=random.choice(unstated))
    if scenario == "impossible" and "precision" not in states:
        return replace(truth, impossible=True)
    return truth


def draw(
    random: Random,
    form: str | None = None,
    wrapper: str | None = None,
    precision: str | None = None,
    scenario: str | None = None,
) -> Truth:
    """One truth; what is not stated is drawn."""
    chosen = ALL[form or random.choice(list(ALL))]
    scenario = scenario or _scenario(random)
    bits = precision if precision in chosen.precisions else None
    bits = bits or random.choice([p for p in PRECISIONS if p in chosen.precisions])
    gpus = [gpu for gpu, peaks in PEAKS.items() if bits in peaks or bits == "fp32"]
    rows = random.randint(14, 40)
    truth = Truth(
        form=chosen.name,
        model=_model(random, chosen, bits),
        gpu=random.choice(gpus),
        precision=bits,
        seq_length=random.choice((2048, 4096, 8192)),
        rows=rows,
        first_step=random.choice((1, 1, 1, 101)) if chosen.resumes else 1,
        warmup=random.randint(0, 3),
        interval=random.choice(chosen.intervals),
        lora="lora" in chosen.features and random.random() < 0.15,
        inert=random.randint(0, 8),
        states_setting=random.random() < 0.75,
        prints_rates=random.random() < 0.8,
        prints_tflops=random.random() < 0.8,
        wrapper=wrapper or random.choice(list(WRAPPERS)),
        seed=random.randrange(1 << 20),
        **_layout(random),  # type: ignore[arg-type]
        **(_events(random, chosen, rows) if scenario in ("sound", "crash") else {}),  # type: ignore[arg-type]
    )
    truth = _timed(random, truth)
    truth = replace(truth, typed=typed_rightly(truth, random, random.random() < 0.7))
    if chosen.name == "unsloth" and not truth.states_setting:
        truth = replace(truth, lora=False)  # its banner alone states adapters
    if chosen.bars and truth.interval > 1:
        truth = replace(truth, warmup=min(truth.warmup, 1))  # five steps are the warm-up
    return _with(truth, scenario, random, chosen)


def _with(truth: Truth, scenario: str, random: Random, form: Form) -> Truth:
    """The truth with what the scenario makes wrong."""
    if scenario == "crash":
        kind = random.choice(sorted(CRASHES))
        return replace(truth, ending=kind, crash=random.randrange(8))
    if scenario in ("cut", "truncated"):
        return replace(truth, ending=scenario)
    if scenario == "loss":
        kinds = ("constant", "nan", "nan_gradient", "zero_gradient", "repeated", "no_norm")
        return replace(truth, loss=random.choice(kinds))
    if scenario == "second":
        return replace(truth, second_job=True)
    if scenario == "again" and says_its_end(truth):
        return replace(truth, trained_before=True)
    if scenario == "newest" and (form.numbered or form.mark is not None):
        on_one_line = any(line.glued for line in form.write(truth))
        return replace(truth, newest_first=not on_one_line)
    if scenario == "exotic":
        exotic = "exotic" in form.features and truth.states_setting
        return replace(truth, exotic=random.choice(sorted(EXOTIC))) if exotic else truth
    return _contradicted(truth, scenario, random)
