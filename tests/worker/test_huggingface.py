"""The Hugging Face fine-tune, really trained on the CPU: LoRA and whole, one rank and two, mock and conversations."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import forked
import pytest

from benchrun.errors import UserError
from benchrun.frameworks.logs import parse_log
from benchrun.measure.setting import Setting
from benchrun.measure.summary import measure
from benchrun.model.adapters import TRANSFORMERS, adapter_params
from benchrun.model.flops import flops_per_token
from benchrun.recipes.resolve import resolve
from benchrun.recipes.select import Request
from benchrun.runspec.spec import RunSpec

pytestmark = pytest.mark.train
for module in ("torch", "transformers", "peft"):
    pytest.importorskip(module, reason="training needs pip install '.[hf]'")

MODULE = "benchrun.worker.huggingface"
STEPS = 6
RECOMPUTE = "training.recompute={granularity: full, method: uniform, num_layers: 1}"
Trained = tuple[list[float], list[float], Path]
"""Losses and gradient norms of every step, and the log."""


def spec_for(recipe: str, ranks: int, *overrides: str, precision: str = "fp32") -> RunSpec:
    """A short run of a tiny recipe."""
    small = (f"training.steps={STEPS}", "model.num_layers=2", "seq_length=64")
    return resolve(Request(recipe, "CPU", precision, ranks, overrides=(*small, *overrides)))


def run(folder: Path, spec: RunSpec, **env: str) -> subprocess.CompletedProcess[str]:
    """Train ``spec``."""
    path = folder / "spec.json"
    path.write_text(spec.model_dump_json())
    return forked.run(MODULE, path, spec.num_gpus, **spec.env, **env)


def trained(folder: Path, spec: RunSpec, **env: str) -> Trained:
    """Train ``spec`` to its end."""
    result = run(folder, spec, **env)
    assert result.returncode == 0, result.stderr[-3000:]
    losses = [float(text) for text in re.findall(r"'loss': ([-\d.e]+)", result.stdout)]
    norms = [float(text) for text in re.findall(r"'grad_norm': ([-\d.e]+)", result.stdout)]
    assert len(losses) == len(norms) == STEPS
    log = folder / "stdout.log"
    log.write_text(result.stdout)
    return losses, norms, log


@pytest.fixture(scope="module")
def lora(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    """LoRA on one rank."""
    return trained(tmp_path_factory.mktemp("lora"), spec_for("tiny-llama-lora", 1))


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tokenizer of 256 bytes, as a directory."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    made = Tokenizer(models.BPE(vocab={letter: number for number, letter in enumerate(letters)}, merges=[]))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    folder = tmp_path_factory.mktemp("data") / "tokenizer"
    PreTrainedTokenizerFast(tokenizer_object=made).save_pretrained(folder)
    return folder


def conversations(folder: Path, spec: RunSpec, tokenizer: Path) -> Path:
    """The folder of a data set as datagen writes it, with both forms of a conversation."""
    data_set = folder / spec.data_set
    data_set.mkdir()
    (data_set / "tokenizer").symlink_to(tokenizer)
    chat = {"messages": [{"role": "user", "content": "count"}, {"role": "assistant", "content": "one two three"}]}
    dolly = {"instruction": "add", "context": "1 + 1", "response": "two", "category": "closed_qa"}
    lines = [json.dumps({**chat, "id": number}) + "\n" + json.dumps(dolly) for number in range(60)]
    (data_set / "sft.jsonl").write_text("\n".join(lines) + "\n")
    return data_set


def generated(folder: Path, vocab_size: int) -> None:
    """Write a data set by datagen, with the fields of dolly."""
    for command in (
        ("tokenizer", "--output", folder / "tokenizer", "--vocab-size", vocab_size),
        ("sft", "--output", folder / "sft", "--format", "dolly", "--samples", 200, "--mean-length", 32),
    ):
        subprocess.run([sys.executable, "-m", "datagen", *map(str, command)], check=True, capture_output=True)


class TestTraining:
    """The loss falls, and does not depend on the number of ranks."""

    def test_two_ranks_are_the_run_of_one_and_one_more_step_is_profiled(self, tmp_path: Path, lora: Trained) -> None:
        losses, norms, log = trained(tmp_path, spec_for("tiny-llama-lora", 2, "training.breakdown=true"))
        assert losses == pytest.approx(lora[0], rel=2e-6)
        assert norms == pytest.approx(lora[1], rel=2e-5)
        assert losses[-1] < losses[0] - 0.1
        text = log.read_text()
        assert text.index("benchrun done") < text.index("benchrun breakdown")
        assert parse_log(log).problems == ()
        breakdown = json.loads((tmp_path / "breakdown.json").read_text())
        assert min(breakdown[f"{kind}_s"] for kind in ("matmul", "attention", "communication")) > 0

    def test_full_bf16_on_generated_conversations_with_recompute_on_two_ranks(
        self, tmp_path: Path, lora: Trained
    ) -> None:
        data = ("data.kind=synthetic", "data.num_workers=0")
        plain = spec_for("tiny-llama-sft", 1, *data, precision="bf16")
        spread = spec_for("tiny-llama-sft", 2, *data, RECOMPUTE, precision="bf16")
        assert plain.data_set == spread.data_set
        generated(tmp_path / plain.data_set, plain.model.vocab_size)
        one, _, _ = trained(tmp_path, plain, BENCHRUN_DATA=str(tmp_path))
        two, _, _ = trained(tmp_path, spread, BENCHRUN_DATA=str(tmp_path))
        # BF16 rounds the sums of two ranks otherwise than those of one.
        assert two == pytest.approx(one, rel=1e-3)
        assert one[-1] < one[0] - 1
        assert lora[0][0] - lora[0][-1] < one[0] - one[-1]


def test_lora_without_peft_is_refused_before_the_ranks_meet(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.modules['peft'] = None\n")
    path = os.pathsep.join(filter(None, (str(tmp_path), os.environ.get("PYTHONPATH"))))
    (tmp_path / "spec.json").write_text(spec_for("tiny-llama-lora", 1).model_dump_json())
    command = [sys.executable, "-m", MODULE, "--spec", "spec.json"]
    env = {**os.environ, "PYTHONPATH": path}
    result = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    assert result.returncode == 2
    assert "error: framework hf: import of peft" in result.stderr
    assert "pip install '.[hf]'" in result.stderr
    assert result.stdout == ""


class TestLog:
    """What it prints is read back with its conditions, and each step has its own time."""

    def test_every_condition_of_the_run_is_in_its_log(self, lora: Trained) -> None:
        log = parse_log(lora[2])
        assert (log.framework, log.planned_steps, len(log.steps)) == ("hf", STEPS, STEPS)
        assert log.complete(STEPS)
        facts = log.facts
        assert (facts.seq_length, facts.gbs, facts.mbs, facts.num_gpus) == (64, 8, 2, 1)
        assert (facts.task, facts.precision, facts.device, facts.num_layers) == ("lora", "fp32", "cpu", 2)
        assert not log.whole_seconds
        assert not log.only_average
        assert log.problems == ()
        times = [row.step_time_s or 0.0 for row in log.steps]
        assert sum(times) == pytest.approx(facts.run_time_s, rel=0.5)
        assert min(times) > 0

    def test_its_flops_are_those_of_lora(self, lora: Trained) -> None:
        spec = spec_for("tiny-llama-lora", 1)
        setting = Setting(64, 8, 1, "CPU", "fp32", spec.model, "lora")
        metrics = measure(parse_log(lora[2]), setting, planned_steps=STEPS, warmup=1)
        assert metrics.step_time_s and metrics.tflops_per_gpu
        flops = flops_per_token(spec.model, 64, task="lora").causal
        rate = 8 * 64 / metrics.step_time_s.median
        assert metrics.tflops_per_gpu.causal == pytest.approx(rate * flops / 1e12)
        assert flops < flops_per_token(spec.model, 64).causal


@pytest.fixture(scope="module")
def alone() -> Iterator[Any]:
    """One rank in this process."""
    import torch

    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    yield torch.device("cpu")
    torch.distributed.destroy_process_group()


class TestModel:
    """A Llama of the recipe's dimensions, of which LoRA trains the adapters alone."""

    def test_lora_trains_its_adapters_and_nothing_else(self, alone: Any) -> None:
        import torch

        from benchrun.worker.hf.model import build_model

        spec = spec_for("tiny-llama-lora", 1, "training.lora.target_modules=[q_proj, down_proj]", precision="bf16")
        model = build_model(spec, alone)
        tokens = torch.arange(64).reshape(1, 64)
        model(input_ids=tokens, labels=tokens).loss.backward()
        learning = {name: p for name, p in model.named_parameters() if p.grad is not None}
        assert {re.findall(r"(\w+)\.lora_[AB]\.", name)[0] for name in learning} == {"q_proj", "down_proj"}
        assert sum(p.numel() for p in learning.values()) == spec.model.num_layers * adapter_params(
            spec.model, TRANSFORMERS, spec.training.lora.target_modules, spec.training.lora.rank
        )
        assert {p.dtype for p in learning.values()} == {torch.float32}
        frozen = [p for name, p in model.named_parameters() if name not in learning]
        assert sum(p.numel() for p in frozen) == spec.model.params_total
        assert {p.dtype for p in frozen} == {torch.bfloat16}

    def test_adapters_change_nothing_before_the_first_step(self, alone: Any) -> None:
        import torch

        from benchrun.worker.hf.model import build_model

        tokens = torch.arange(64).reshape(1, 64)
        shape = ("model.tied_embeddings=true", "model.bias=true", "model.rotary_base=500000")
        first, second = (build_model(spec_for(f"tiny-llama-{kind}", 1, *shape), alone) for kind in ("lora", "sft"))
        assert torch.equal(first(input_ids=tokens).logits, second(input_ids=tokens).logits)
        assert first(input_ids=tokens).logits.std() > 0.05

    def test_the_dimensions_arrive(self) -> None:
        from benchrun.worker.hf.model import llama_config

        spec = resolve(Request("mistral-7b-hf", "H100", "bf16", 8))
        config = llama_config(spec.model)
        assert (config.num_hidden_layers, config.intermediate_size, config.num_key_value_heads) == (32, 14336, 8)
        assert config.head_dim == 128
        theta = getattr(config, "rope_theta", None) or config.rope_parameters["rope_theta"]
        assert theta == 10000


class TestConversations:
    """The assistant's words are trained, nothing else; bad files are named with their line."""

    def packed(self, folder: Path, tokenizer: Path, *overrides: str) -> Any:
        from benchrun.worker.hf.data import Packed

        spec = spec_for("tiny-llama-sft", 1, "data.kind=synthetic", *overrides)
        return Packed(folder / "sft.jsonl", tokenizer, spec)

    def test_only_the_answer_has_labels(self, tmp_path: Path, tokenizer: Path) -> None:
        from transformers import AutoTokenizer

        spec = spec_for("tiny-llama-sft", 1, "data.kind=synthetic")
        folder = conversations(tmp_path, spec, tokenizer)
        packed = self.packed(folder, tokenizer, "seq_length=120")
        decode = AutoTokenizer.from_pretrained(tokenizer).decode
        inputs, labels = packed[0]["input_ids"], packed[0]["labels"]
        first = "<|im_start|>user\ncount<|im_end|>\n<|im_start|>assistant\none two three<|im_end|>\n"
        assert decode(inputs).startswith(first + "<|im_start|>user\nadd\n\n1 + 1<|im")
        assert decode(labels[labels >= 0]) == "one two three<|im_end|>\n"
        # It goes on where the sequence was cut.
        assert decode(packed[1]["labels"][packed[1]["labels"] >= 0]).startswith("two<|im_end|>\none")

    def test_the_sequences_repeat(self, tmp_path: Path, tokenizer: Path) -> None:
        folder = tmp_path
        line = {"messages": [{"role": "assistant", "content": "x" * 180}]}
        (folder / "sft.jsonl").write_text(json.dumps(line) + "\n")
        packed = self.packed(folder, tokenizer)
        assert packed[3]["input_ids"].tolist() == packed[0]["input_ids"].tolist() != packed[1]["input_ids"].tolist()

    def test_a_sequence_without_an_answer_is_left_out(self, tmp_path: Path, tokenizer: Path) -> None:
        """A step of such sequences alone would have no loss."""
        long = {"messages": [{"role": "user", "content": "?" * 300}, {"role": "assistant", "content": "!" * 90}]}
        (tmp_path / "sft.jsonl").write_text(f"{json.dumps(long)}\n" * 20)
        packed = self.packed(tmp_path, tokenizer)
        assert all((packed[index]["labels"] >= 0).any() for index in range(200))

    @pytest.mark.parametrize(
        ("text", "message", "line"),
        [
            ('{"messages": []}\n', "not a conversation", 1),
            ('{"messages": [{"role": "user", "content": 1}]}\n', "a message is no text", 1),
            ('{"instruction": "a", "response": "b"}\n{"question": "?"}\n', "'instruction'", 2),
            ("[1]\n", "not a conversation", 1),
            ("{\n", "not a conversation", 1),
            ('{"instruction": "a", "response": "b"}\n', "hold no sequence of 64 with an answer in it", None),
        ],
    )
    def test_a_wrong_file_is_refused(
        self, tmp_path: Path, tokenizer: Path, text: str, message: str, line: int | None
    ) -> None:
        (tmp_path / "sft.jsonl").write_text(text)
        with pytest.raises(UserError) as error:
            self.packed(tmp_path, tokenizer)
        assert message in str(error.value)
        assert error.value.where == f"{tmp_path / 'sft.jsonl'}" + (f":{line}" if line else "")

    def test_a_missing_file_is_named_with_the_command_that_makes_it(self, tmp_path: Path, tokenizer: Path) -> None:
        with pytest.raises(UserError, match="no conversations") as error:
            self.packed(tmp_path, tokenizer)
        assert error.value.hint == "datagen sft makes it"
        with pytest.raises(UserError, match="no tokenizer") as error:
            self.packed(tmp_path, tmp_path / "nothing")
        assert error.value.hint == "datagen tokenizer makes it"
