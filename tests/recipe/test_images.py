"""A site names an image for each framework, and where scripts lie without one; what is wrong has file and line."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from benchrun.errors import UserError
from benchrun.frameworks.registry import framework as registered
from benchrun.recipes.images import image_error
from benchrun.recipes.resolve import resolve
from benchrun.recipes.select import Request
from benchrun.render import render

SITE = """description: a site
scheduler: slurm
gpu: H100
gpus_per_node: 8
container:
  runtime: {runtime}
  {images}
"""
IMAGES = {
    "nemo1": "/images/nemo-24.12.sqsh",
    "nemo2": "/images/nemo-25.07.sqsh",
    "megatron-bridge": "/images/nemo-26.04.sqsh",
}
EACH = "images: {" + ", ".join(f"{name}: {path}" for name, path in IMAGES.items()) + "}"


@pytest.fixture
def spec(tmp_path: Path) -> Callable[..., Any]:
    """A spec at a site of these images."""

    def build(
        framework: Any,
        images: Any,
        *overrides: Any,
        runtime: Any = "pyxis",
        point: Any = ("llama3.1-8b", "H100", "bf16", 8),
    ) -> Any:
        path = tmp_path / f"{len(list(tmp_path.iterdir()))}-site.yaml"
        path.write_text(SITE.format(images=images, runtime=runtime))
        return resolve(Request(*point, framework, str(path), overrides))

    return build


@pytest.mark.parametrize("framework", IMAGES)
def test_each_framework_has_the_image_that_the_site_names_for_it(spec: Callable[..., Any], framework: str) -> None:
    run = spec(framework, EACH)
    assert run.image == run.container_image == IMAGES[framework]
    assert f"--container-image={IMAGES[framework]}" in render(run)["job.sh"]


def test_a_framework_that_the_site_does_not_name_has_the_one_image_of_the_site_or_the_recipes(
    spec: Callable[..., Any],
) -> None:
    assert spec("megatron-core", EACH).image == "nvcr.io/nvidia/nemo:25.07.01"
    assert spec("megatron-core", EACH + "\n  image: /images/mine.sqsh").image == "/images/mine.sqsh"
    assert spec("nemo2", EACH + "\n  image: /images/mine.sqsh").image == IMAGES["nemo2"]


@pytest.mark.parametrize(
    ("framework", "images", "line"),
    [
        ("nemo1", "image: /images/nemo-25.07.sqsh", 7),
        ("nemo1", "image: /images/mine.sqsh", 7),
        ("nemo2", "image: /images/nemo-24.09.sqsh", 7),
        ("nemo2", "image: nvcr.io/nvidia/nemo:26.04.01", 7),
        ("nemo2", "options: []\n  image: ghcr.io/nvidia/jax:maxtext-2024-12-09", 8),
        ("megatron-bridge", "image: /images/nemo-25.07.sqsh", 7),
        ("megatron-core", "image: ghcr.io/nvidia/jax:pax-2024-03-04", 7),
        ("nemo2", EACH.replace("25.07", "24.09"), 7),
    ],
)
def test_an_image_that_is_evidently_of_another_framework_is_refused_at_its_line(
    spec: Callable[..., Any], framework: str, images: str, line: int
) -> None:
    with pytest.raises(UserError) as error:
        spec(framework, images)
    assert error.value.where.endswith(f"site.yaml:{line}")
    assert f"container.images.{framework}=" in error.value.hint


def test_an_image_that_an_option_names_is_refused_there(spec: Callable[..., Any]) -> None:
    with pytest.raises(UserError) as error:
        spec("nemo2", "image: /images/mine.sqsh", "cluster.container.image=/images/nemo-24.05.sqsh")
    assert error.value.where == "--set cluster.container.image=/images/nemo-24.05.sqsh"


def test_images_of_an_unknown_framework_are_refused_at_their_line(spec: Callable[..., Any]) -> None:
    with pytest.raises(UserError) as error:
        spec("nemo2", "images: {nemo3: /images/nemo.sqsh}")
    assert error.value.where.endswith("site.yaml:7")


@pytest.mark.parametrize(
    ("image", "framework"),
    [
        ("/images/mine.sqsh", "nemo2"),
        ("nvcr.io/nvidia/pytorch:24.02-py3", "hf"),
        ("nvcr.io/nvidia/nemo:25.07.01", "hf"),
        ("nvcr.io/nvidia/nemo:24.09", "megatron-lm"),
        ("nvcr.io/nvidia/jax:25.01-maxtext-py3", "maxtext"),
        ("nvcr.io/nvidia/nemo:25.09", "nemo2"),
        ("nvcr.io/nvidia/nemo:25.09", "megatron-bridge"),
        (None, "megatron-core"),
    ],
)
def test_an_image_that_may_be_right_is_not_refused(image: str | None, framework: str) -> None:
    assert image_error(image, registered(framework)) is None


@pytest.mark.parametrize("framework", ["megatron-lm", "nemo1", "maxtext"])
def test_without_a_container_the_site_says_where_scripts_lie(spec: Callable[..., Any], framework: str) -> None:
    more = {"point": ("llama2-70b", "H100", "fp8", 2048)} if framework == "maxtext" else {}
    with pytest.raises(UserError) as error:
        spec(framework, "", runtime="none", **more)
    assert error.value.where.endswith("site.yaml:6")
    assert f"cluster.frameworks.{framework}.path=" in error.value.hint
    run = spec(framework, "", f"cluster.frameworks.{framework}.path=/home/me/a checkout", runtime="none", **more)
    assert "'/home/me/a checkout'/" in render(run)["job.sh"]


def test_without_a_container_the_site_says_where_maxtext_lies() -> None:
    point, bare = ("llama3-70b", "H100", "bf16", 128, "maxtext", None), "cluster.container.runtime=none"
    with pytest.raises(UserError) as error:
        resolve(Request(*point, (bare,)))
    assert "cluster.frameworks.maxtext.path=" in error.value.hint
    run = resolve(Request(*point, (bare, "cluster.frameworks.maxtext.path=/mine")))
    assert " /mine/MaxText/train.py /mine/MaxText/configs/" in render(run)["job.sh"]


def test_without_a_container_modules_need_no_place(spec: Callable[..., Any]) -> None:
    assert spec("megatron-core", "", runtime="none")
    assert spec("nemo2", "", runtime="none")


def test_in_a_container_scripts_lie_where_the_image_or_the_site_has_them(spec: Callable[..., Any]) -> None:
    assert " /opt/megatron-lm/pretrain_gpt.py\n" in render(spec("megatron-lm", EACH))["job.sh"]
    moved = spec("megatron-lm", EACH, "cluster.frameworks.megatron-lm.path=/workspace/megatron")
    assert " /workspace/megatron/pretrain_gpt.py\n" in render(moved)["job.sh"]


@pytest.mark.parametrize(
    "place", ["megatron-lm.path=megatron", "megatron-lm.path=/a:b", "nemo2.path=/opt/NeMo", "x.path=/x"]
)
def test_a_place_that_no_command_uses_is_refused(spec: Callable[..., Any], place: str) -> None:
    with pytest.raises(UserError) as error:
        spec("megatron-lm", EACH, f"cluster.frameworks.{place}")
    assert error.value.where == f"--set cluster.frameworks.{place}"


def test_without_a_container_a_framework_runs_from_checkouts_and_its_own_python(spec: Callable[..., Any]) -> None:
    stated = ("cluster.frameworks.nemo2.path=/opt/NeMo:/opt/core", "cluster.frameworks.nemo2.python=/venv/bin/python")
    run = spec("nemo2", "", *stated, runtime="none")
    assert run.env["PYTHONPATH"] == "/opt/NeMo:/opt/core"
    script = render(run)["job.sh"]
    assert "export PYTHONPATH=/opt/NeMo:/opt/core\n" in script
    assert "  /venv/bin/python -u train_nemo2.py" in script
    other = spec("megatron-core", "", *stated, runtime="none")
    assert "PYTHONPATH" not in other.env and "/venv" not in render(other)["job.sh"]


def test_the_path_of_a_checkout_comes_before_that_of_the_site(spec: Callable[..., Any]) -> None:
    stated = ("cluster.frameworks.nemo2.path=/opt/NeMo", "cluster.env.PYTHONPATH=/site")
    run = spec("nemo2", "", *stated, runtime="none")
    assert run.env["PYTHONPATH"] == "/opt/NeMo:/site"
    assert run.identity() == spec("nemo2", "", runtime="none").identity()
