"""A fine-tune on conversations that its own job makes: tokenizer and text by the generator, read by transformers."""

from __future__ import annotations

import json

import pytest
from test_contract import call

pytestmark = pytest.mark.train
for module in ("torch", "transformers", "peft"):
    pytest.importorskip(module, reason="training needs pip install 'benchrun[hf]'")

DATA = ("data.kind=synthetic", "data.instructions.samples=200", "data.instructions.mean_length=32")
SMALL = ("training.steps=10", "seq_length=64", "model.num_layers=2")


def test_the_loss_falls_on_what_the_job_made(tmp_path):
    changes = [word for change in (*DATA, *SMALL) for word in ("--set", change)]
    result = call(
        "launch", "tiny-llama-sft", "--precision", "fp32", "--num-gpus", "1", *changes, "--wait", cwd=tmp_path
    )
    run = tmp_path / "results" / "runs" / result.stdout.splitlines()[0]
    metrics = json.loads((run / "metrics.json").read_text())
    assert metrics["final_loss"] < metrics["first_loss"] - 1, result.stdout
    # A proxy on data of its own: nothing that was measured elsewhere is held against it.
    assert (result.returncode, json.loads((run / "verdict.json").read_text())["verdict"]) == (4, "no_reference")
    spec, made = (json.loads((run / name).read_text()) for name in ("spec.json", "data.json"))
    assert made["kind"] == "sft" and made["parameters"]["format"] == "chat"
    assert made["parameters"].items() >= spec["data"]["instructions"].items()
