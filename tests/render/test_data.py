"""A run on synthetic data makes it first, where the ranks will read it, in whatever container they run."""

import math
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from benchrun.recipes import catalogue
from benchrun.recipes.catalogue import Point, RecipeFile
from benchrun.recipes.resolve import resolve_point
from benchrun.render import render
from benchrun.runspec.spec import RunSpec
from benchrun.runspec.training import Instructions, Synthetic
from datagen import sft, tokens

CONTAINERS = {
    "pyxis": ("$PWD:$PWD,$BENCHRUN_DATA:$BENCHRUN_DATA", '"$BENCHRUN_DATA"'),
    "apptainer": ('--bind="$BENCHRUN_DATA:$BENCHRUN_DATA"', '"$BENCHRUN_DATA"'),
    "singularity": ('--bind="$BENCHRUN_DATA:$BENCHRUN_DATA"', '"$BENCHRUN_DATA"'),
    "charliecloud": ('--bind="$BENCHRUN_DATA:/srv"', "/srv"),
    "podman": ('--mount=type=bind,source="$BENCHRUN_DATA",target="$BENCHRUN_DATA"', '"$BENCHRUN_DATA"'),
    "docker": ('--mount=type=bind,source="$BENCHRUN_DATA",target="$BENCHRUN_DATA"', '"$BENCHRUN_DATA"'),
    "none": ("", '"$BENCHRUN_DATA"'),
}


def point(framework: str) -> tuple[RecipeFile, Point]:
    file = catalogue.recipe_file("llama3.1-8b")
    return file, next(p for p in catalogue.points(file.recipe) if p.framework == framework and p.gpu == "H100")


PLAIN = ("cluster.container.options=[]", "cluster.binding.gpus_per_numa_node=null")


def script(runtime: str, framework: str, *overrides: str) -> tuple[RunSpec, str]:
    file, chosen = point(framework)
    cluster = (f"cluster.container.runtime={runtime}", *PLAIN, "cluster.frameworks.megatron-lm.path=/opt/megatron-lm")
    overrides = ("data.kind=synthetic", *overrides)
    spec = resolve_point(file, chosen, "dgx-h100", (*cluster, *overrides))
    return spec, render(spec)["job.sh"]


@pytest.mark.parametrize("framework", ["megatron-lm", "megatron-core"])
@pytest.mark.parametrize("runtime", CONTAINERS)
def test_the_data_is_made_and_mounted_where_it_is_read(tmp_path: Path, runtime: str, framework: str) -> None:
    spec, text = script(runtime, framework)
    mount, root = CONTAINERS[runtime]
    made = text.index("-m datagen tokens")
    assert made < text.index("command=(")
    assert f"--output {root}/{spec.data_set}/tokens" in text
    assert text.count(mount) >= 2  # for what makes it, and for what reads it
    if framework == "megatron-lm":
        assert f"--data-path {root}/{spec.data_set}/tokens" in text
        assert "--mock-data" not in text
    (tmp_path / "job.sh").write_text(text)
    subprocess.run(["bash", "-n", tmp_path / "job.sh"], check=True)
    if shutil.which("shellcheck"):
        checked = subprocess.run(["shellcheck", tmp_path / "job.sh"], capture_output=True, text=True)
        assert checked.returncode == 0, checked.stdout


def test_as_many_tokens_as_the_run_reads_and_one_label_more() -> None:
    spec, text = script("none", "megatron-core", "training.steps=7")
    assert spec.data.synthetic.tokens == 7 * spec.gbs * spec.seq_length + 1
    assert f"--vocab-size 128256\n  --tokens {spec.data.synthetic.tokens} " in text


def test_other_parameters_are_another_data_set() -> None:
    names = {script("none", "megatron-core", *more)[0].data_set for more in ((), ("data.synthetic.seed=2",))}
    assert len(names) == 2


def test_the_command_is_one_that_the_generator_takes() -> None:
    """Every option of the script, through the generator's own command line."""
    import shlex

    from datagen.commands import tokens as command
    from datagen.tokens import Parameters

    spec, text = script("none", "megatron-core", "data.synthetic.learnable=true", "data.synthetic.documents=zipf")
    words = shlex.split(text[text.index("-m datagen tokens") : text.index("\n)", text.index("-m datagen"))])
    given = command.make_context("tokens", words[3:], resilient_parsing=False).params
    parameters = Parameters(**{name: given[name] for name in Parameters.model_fields})
    assert parameters.model_dump(exclude={"vocab_size", "shards"}) == spec.data.synthetic.model_dump()
    assert parameters.vocab_size == spec.model.vocab_size


def fine_tune(name: str, framework: str, *overrides: str, runtime: str = "none") -> tuple[RunSpec, dict[str, str]]:
    file = catalogue.recipe_file(name)
    point = next(p for p in catalogue.points(file.recipe) if (p.framework, p.gpu) == (framework, "H100"))
    cluster = (f"cluster.container.runtime={runtime}", *PLAIN, "cluster.frameworks.megatron-lm.path=/opt/megatron-lm")
    overrides = ("data.kind=synthetic", *overrides)
    spec = resolve_point(file, point, "dgx-h100", (*cluster, *overrides))
    return spec, render(spec)


@pytest.mark.parametrize(
    ("name", "framework", "file"),
    [
        ("llama3-8b-sft", "nemo2", "train_nemo2.py"),
        ("llama3-70b-lora", "megatron-bridge", "train_megatron_bridge.py"),
    ],
)
def test_a_fine_tune_is_given_packed_conversations(tmp_path: Path, name: str, framework: str, file: str) -> None:
    """Every option of the script through the generator's own command line, its files where the driver reads them."""
    import shlex

    from datagen.commands import sft as command
    from datagen.sft import Parameters, make_sft

    spec, files = fine_tune(name, framework, "data.instructions.samples=300", "data.instructions.lengths=zipf")
    text = files["job.sh"]
    words = shlex.split(text[text.index("-m datagen sft") : text.index("\n)", text.index("-m datagen sft"))])
    given = command.make_context("sft", words[3:]).params
    parameters = Parameters(**{key: given[key] for key in Parameters.model_fields})
    chosen = spec.data.instructions.model_dump()
    assert parameters.model_dump(include=chosen.keys()) == chosen
    assert (parameters.format, parameters.seq_length, parameters.vocab_size) == ("packed", 4096, 128256)
    root = f'"$BENCHRUN_DATA"/{spec.data_set}'
    assert f"-m datagen tokenizer --output {root}/tokenizer --vocab-size 128256\n" in text
    assert f"\n  python3 -u {file} {root}\n" in text
    assert f'cp "$BENCHRUN_DATA/{spec.data_set}/sft.json" data.json' in text
    make_sft(tmp_path / "sft", parameters, None, 1, lambda done, total: None)
    read = set(re.findall(r'sys\.argv\[1\] \+ "/(\S+)"', files[file]))
    assert read == {"sft.npy", "sft.metadata.json", "tokenizer"}
    assert read - {"tokenizer"} <= {path.name for path in tmp_path.iterdir()}


def test_sequences_of_another_length_are_another_data_set() -> None:
    names = {
        fine_tune("llama3-8b-sft", framework, *more)[0].data_set
        for framework in ("nemo2", "megatron-bridge")
        for more in ((), ("seq_length=2048",))
    }
    assert len(names) == 2  # both frameworks read the same files


@pytest.mark.parametrize("runtime", CONTAINERS)
def test_a_fine_tune_is_given_conversations_and_the_tokenizer_that_reads_them(tmp_path: Path, runtime: str) -> None:
    spec, files = fine_tune("mistral-7b-hf", "hf", runtime=runtime)
    text = files["job.sh"]
    mount, root = CONTAINERS[runtime]
    assert f"-m datagen tokenizer --output {root}/{spec.data_set}/tokenizer --vocab-size 32000\n" in text
    assert f"-m datagen sft --output {root}/{spec.data_set}/sft\n  --format chat\n  --samples 10000 " in text
    made = [text.index(f'"${{make_{what}[@]}}"') for what in ("tokenizer", "data")]
    assert made == sorted(made)
    assert text.count(mount) >= 3  # for the two that make it, and for what reads it
    assert f'cp "$BENCHRUN_DATA/{spec.data_set}/sft.json" data.json' in text
    (tmp_path / "job.sh").write_text(text)
    subprocess.run(["bash", "-n", tmp_path / "job.sh"], check=True)
    if shutil.which("shellcheck"):
        checked = subprocess.run(["shellcheck", tmp_path / "job.sh"], capture_output=True, text=True)
        assert checked.returncode == 0, checked.stdout


@pytest.mark.parametrize(
    ("recipe", "made", "others"),
    [
        (Synthetic, tokens.Parameters, {"tokens": 10, "vocab_size": 9}),
        (Instructions, sft.Parameters, {"samples": 10, "format": "chat"}),
    ],
)
def test_what_datagen_refuses_is_refused_before_the_job(
    recipe: type[Any], made: type[Any], others: dict[str, Any]
) -> None:
    """Each number at datagen's limits, and just beyond them."""
    numbers = [name for name, value in recipe() if type(value) in (int, float) or name == "tokens"]
    assert len(numbers) >= 3
    edges = [8, 10**6, 2147483, 10**10, 10**15, 2**63 - 1]
    for name in numbers:
        for value in (-1, 0, 3, 4, 8.5, math.inf, math.nan, *edges, *(edge + 1 for edge in edges)):
            try:
                made(**{**others, name: value})
            except ValidationError:
                with pytest.raises(ValidationError):
                    recipe(**{name: value})
            else:
                assert (name, value) == ("exponent", 0) or recipe(**{name: value})
