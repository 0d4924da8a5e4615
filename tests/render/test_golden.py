"""Every recipe with every framework, held to the scripts in tests/golden (test_every_point.py renders all the others).

``pytest tests/render --update-golden`` writes them anew; the change is then reviewed as a diff.
"""

from __future__ import annotations

import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchrun import __version__, paths
from benchrun.frameworks.registry import FRAMEWORKS
from benchrun.recipe import catalogue
from benchrun.recipe.catalogue import Point, RecipeFile
from benchrun.recipe.checked import checked
from benchrun.recipe.resolve import resolve, resolve_point
from benchrun.recipe.select import Request
from benchrun.render import render
from benchrun.spec.cluster import Cluster

GOLDEN = Path(__file__).parent.parent / "golden"
EVERYWHERE = "llama3.1-8b"
REAPER = shlex.quote((paths.TEMPLATES / "parts" / "reap.py").read_text())


def cases() -> list:
    """Each recipe x framework on each shipped cluster with its GPU; one recipe on every GPU in every precision."""
    found = []
    clusters = {name: checked(Cluster, catalogue.cluster_document(name)) for name in catalogue.names(paths.CLUSTERS)}
    for name in catalogue.names(paths.RECIPES):
        file = catalogue.recipe_file(name)
        for point in reviewed(file):
            for cluster in clusters.values():
                if cluster.gpu == point.gpu:
                    stem = f"{name}_{point.gpu}_{point.precision}_{point.num_gpus}_{point.framework}_{cluster.name}"
                    found.append(pytest.param(file, point, cluster.name, id=stem))
    return found


def reviewed(file: RecipeFile) -> Iterator[Point]:
    """The largest point of the whole model for each framework: on H100, in FP8, with the usual batch before others."""
    groups: dict[tuple[str, ...], list[Point]] = {}
    for point in catalogue.points(file.recipe):
        if point.group.num_layers is None:
            apart = (point.gpu, point.precision) if file.name == EVERYWHERE else ()
            groups.setdefault((point.framework, *apart), []).append(point)
    for points in groups.values():
        yield max(points, key=lambda p: (p.gpu == "H100", p.precision == "fp8", p.group.gbs is None, p.num_gpus))


def same_or_update(request, path, text):
    text = text.replace(f"benchrun {__version__}", "benchrun VERSION").replace(REAPER, "REAPER")
    if request.config.getoption("--update-golden"):
        path.write_text(text)
    assert path.exists(), f"no {path.name}: run pytest tests/render --update-golden and review it"
    assert text == path.read_text()


@pytest.mark.parametrize(("file", "point", "cluster"), cases())
def test_the_script_is_the_reviewed_one(request, file, point, cluster):
    files = render(resolve_point(file, point, cluster))
    for name in ("job.sh", *FRAMEWORKS[point.framework].files):
        suffix = name.rpartition(".")[2]
        same_or_update(request, GOLDEN / f"{request.node.callspec.id}.{suffix}", files[name])


@pytest.mark.parametrize("runtime", ["pyxis", "apptainer", "singularity", "charliecloud", "podman", "docker", "none"])
def test_each_container_runtime(request, runtime):
    file = catalogue.recipe_file("llama3.1-8b")
    point = next(p for p in catalogue.points(file.recipe) if p.framework == "megatron-core" and p.gpu == "H100")
    overrides = (
        f"cluster.container.runtime={runtime}",
        "cluster.container.options=[]",
        "cluster.container.mounts=[/scratch:/scratch]",
        "cluster.secrets=[HF_TOKEN]",
        *(["cluster.binding.gpus_per_numa_node=null"] if runtime == "docker" else []),
    )
    script = render(resolve_point(file, point, "dgx-h100", overrides))["job.sh"]
    same_or_update(request, GOLDEN / f"container_{runtime}.sh", script)


def test_no_golden_file_is_left_over():
    known = {case.id for case in cases()}
    left = {path.name for path in GOLDEN.iterdir() if path.name.rpartition(".")[0] not in known}
    assert all(name.startswith("container_") for name in left), left


def test_every_script_is_sound_shell(tmp_path):
    engine = ("cluster.container.runtime=podman", "cluster.container.options=[]")
    for name, text in render(resolve(Request("llama3.1-8b", "H100", "fp8", 64, overrides=engine))).items():
        if name.endswith(".sh"):
            (tmp_path / name).write_text(text)
    assert {script.name for script in tmp_path.iterdir()} == {"job.sh", "probe.sh", "telemetry.sh", "contained.sh"}
    scripts = sorted([*GOLDEN.glob("*.sh"), *tmp_path.glob("*.sh")])
    for script in scripts:
        subprocess.run(["bash", "-n", str(script)], check=True)
    if shutil.which("shellcheck") is None:
        pytest.skip("shellcheck is not installed")
    result = subprocess.run(["shellcheck", *map(str, scripts)], capture_output=True, text=True)
    assert result.returncode == 0, result.stdout
