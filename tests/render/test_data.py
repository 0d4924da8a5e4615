"""A run on synthetic data makes it first, where the ranks will read it, in whatever container they run."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from benchrun.recipe import catalogue
from benchrun.recipe.resolve import resolve_point
from benchrun.render import render

CONTAINERS = {
    "pyxis": ("$PWD:$PWD,$BENCHRUN_DATA:$BENCHRUN_DATA", '"$BENCHRUN_DATA"'),
    "apptainer": ('--bind="$BENCHRUN_DATA:$BENCHRUN_DATA"', '"$BENCHRUN_DATA"'),
    "singularity": ('--bind="$BENCHRUN_DATA:$BENCHRUN_DATA"', '"$BENCHRUN_DATA"'),
    "charliecloud": ('--bind="$BENCHRUN_DATA:/srv"', "/srv"),
    "podman": ('--volume="$BENCHRUN_DATA:$BENCHRUN_DATA"', '"$BENCHRUN_DATA"'),
    "docker": ('--volume="$BENCHRUN_DATA:$BENCHRUN_DATA"', '"$BENCHRUN_DATA"'),
    "none": ("", '"$BENCHRUN_DATA"'),
}


def point(framework):
    file = catalogue.recipe_file("llama3.1-8b")
    return file, next(p for p in catalogue.points(file.recipe) if p.framework == framework and p.gpu == "H100")


def script(runtime, framework, *overrides):
    file, chosen = point(framework)
    cluster = (f"cluster.container.runtime={runtime}", "cluster.container.options=[]", "data.kind=synthetic")
    spec = resolve_point(file, chosen, "dgx-h100", (*cluster, *overrides))
    return spec, render(spec)["job.sh"]


@pytest.mark.parametrize("framework", ["megatron-lm", "megatron-core"])
@pytest.mark.parametrize("runtime", CONTAINERS)
def test_the_data_is_made_and_mounted_where_it_is_read(runtime, framework):
    spec, text = script(runtime, framework)
    mount, root = CONTAINERS[runtime]
    made = text.index("-m datagen tokens")
    assert made < text.index("command=(")
    assert f"--output {root}/{spec.data_set}/tokens" in text
    assert text.count(mount) >= 2  # for what makes it, and for what reads it
    if framework == "megatron-lm":
        assert f"--data-path {root}/{spec.data_set}/tokens" in text
        assert "--mock-data" not in text
    assert_sound(text)


def test_as_many_tokens_as_the_run_reads_and_one_label_more():
    spec, text = script("none", "megatron-core", "training.steps=7")
    assert spec.data.synthetic.tokens == 7 * spec.gbs * spec.seq_length + 1
    assert f"--tokens {spec.data.synthetic.tokens} --vocab-size 128256" in text


def test_other_parameters_are_another_data_set():
    names = {script("none", "megatron-core", *more)[0].data_set for more in ((), ("data.synthetic.seed=2",))}
    assert len(names) == 2


def test_the_command_is_one_that_the_generator_takes():
    """Every option of the script, through the generator's own command line."""
    import shlex

    from datagen.cli.tokens import command
    from datagen.tokens import Parameters

    spec, text = script("none", "megatron-core", "data.synthetic.learnable=true", "data.synthetic.documents=zipf")
    words = shlex.split(text[text.index("-m datagen tokens") : text.index("\n)", text.index("-m datagen"))])
    given = command.make_context("tokens", words[3:], resilient_parsing=False).params
    parameters = Parameters(**{name: given[name] for name in Parameters.model_fields})
    assert parameters.model_dump(exclude={"vocab_size", "shards"}) == spec.data.synthetic.model_dump()
    assert parameters.vocab_size == spec.model.vocab_size


def test_conversations_are_made_by_commands_that_the_generator_takes():
    """Both, on a cluster with containers: the tokenizer first, then what is read with it."""
    import shlex

    from datagen.cli import sft, tokenizer

    file = catalogue.recipe_file("mistral-7b-hf")
    cluster = ("cluster.container.runtime=charliecloud", "cluster.container.options=[]", "data.kind=synthetic")
    spec = resolve_point(file, catalogue.points(file.recipe)[0], "dgx-h100", cluster)
    text = render(spec)["job.sh"]
    given = {}
    for name, module in (("tokenizer", tokenizer), ("sft", sft)):
        start = text.index(f"-m datagen {name}")
        words = shlex.split(text[start : text.index("\n)", start)])[3:]
        given[name] = module.command.make_context(name, words).params
        assert str(given[name]["output"]) == f"/srv/{spec.data_set}/{name}"
    assert given["tokenizer"]["vocab_size"] == spec.model.vocab_size
    assert given["sft"]["format"] == "chat"
    assert given["sft"].items() >= spec.data.instructions.model_dump().items()
    assert text.index('"${make_tokenizer[@]}"') < text.index('"${make_data[@]}"') < text.index("\ncommand=(")
    assert f"/{spec.data_set}/sft.json" in text
    assert_sound(text)


def assert_sound(text):
    """Sound shell, as far as the tools of this machine can tell."""
    subprocess.run(["bash", "-n"], input=text, text=True, check=True)
    if shutil.which("shellcheck"):
        checked = subprocess.run(["shellcheck", "-"], input=text, capture_output=True, text=True)
        assert checked.returncode == 0, checked.stdout
