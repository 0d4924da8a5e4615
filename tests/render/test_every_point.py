"""Every listed point is rendered with every framework that it names, into files that their languages can read."""

import ast
import re
import subprocess
from pathlib import Path

import pytest
import yaml
from selection import some

from benchrun import paths
from benchrun.frameworks.registry import FRAMEWORKS
from benchrun.recipes import catalogue
from benchrun.recipes.resolve import resolve_point
from benchrun.render import render
from benchrun.runspec.spec import RunSpec

LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
CHECK_EACH = 'for script; do bash -n "$script" || exit 1; done'


def kinds(name: str) -> dict[str, dict[str, str]]:
    """The files of every point of a recipe, one point of those that differ in nothing but numbers."""
    file, found = catalogue.recipe_file(name), {}
    for point in catalogue.points(file.recipe):
        spec = resolve_point(file, point)
        files = render(spec)
        assert RunSpec.model_validate_json(files.pop("spec.json")) == spec
        sampler = ["telemetry.sh"] if spec.gpu != "CPU" else []
        assert set(files) == {"job.sh", "probe.sh", *sampler, *FRAMEWORKS[point.framework].files}
        found[re.sub(r"\d+", "0", "".join(files.values()))] = files
    return found


@pytest.mark.parametrize("name", some(paths.shipped(paths.RECIPES), 12))
def test_every_point_becomes_files_that_can_be_read(tmp_path: Path, name: str) -> None:
    scripts = []
    for i, files in enumerate(kinds(name).values()):
        for file, text in files.items():
            if file.endswith(".py"):
                ast.parse(text, file)
            if file.endswith(".yaml"):
                assert yaml.load(text, LOADER)["trainer" if file == "nemo1.yaml" else "defaults"]
        scripts.append(tmp_path / f"{i}.sh")
        scripts[-1].write_text(files["job.sh"])
    subprocess.run(["bash", "-c", CHECK_EACH, "bash", *scripts], check=True)
