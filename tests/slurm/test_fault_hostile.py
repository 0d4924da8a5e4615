"""Hostile text in every field of a site file: refused before the queue or passed on as it stands, never executed."""

import os
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import ValidationError
from selection import chosen, some

from benchrun.runspec.cluster import Cluster

from .conftest import POINT, User

HERE = "n3"
# A site's own lines of shell: they are meant to be run.
SHELL = {"setup"}
SITE = {
    **{"scheduler": "slurm", "gpu": "CPU", "gpus_per_node": 2, "cpus_per_task": 1, "exclusive": False},
    **{"time_limit": "00:02:00", "exclude": HERE},
}
NOT_TEXT = {"scheduler", "gpu", "gpus_per_node", "exclusive", "cpus_per_task"}


def hostile(canary: Any) -> Any:
    """Text that would leave a file, however a shell came to read it."""
    return f"a \"b\" 'c' $(touch {canary}) `touch {canary}` ; touch {canary} # & | * ~ \\ ü€ \u202e %j {{{{ 7 * 7 }}}}"


def places(text: Any) -> Any:
    """A site for each field that takes text, with the hostile one in it."""
    fields = sorted(set(Cluster.model_fields) - NOT_TEXT - SHELL - {"name", "container", "binding"})
    found = {field: {field: text} for field in fields}
    found |= {
        "sbatch_options": {"sbatch_options": [f"--comment={text}"]},
        "srun_options": {"srun_options": [f"--comment={text}"]},
        "env": {"env": {"NASTY": text}},
        "env name": {"env": {text: "1"}},
        "secrets": {"secrets": [text]},
        "image": {"container": {"runtime": "charliecloud", "image": f"/none/{text}"}},
        "runtime": {"container": {"runtime": text, "image": "/none"}},
        "mounts": {"container": {"runtime": "charliecloud", "image": "/none", "mounts": [f"/{text}:/mnt"]}},
        "options": {"container": {"runtime": "charliecloud", "image": "/none", "options": [text]}},
        "cpu_bind": {"binding": {"cpu_bind": text}},
        "a key": {text: "1"},
    }
    found["python"] = {"python": f"/none/{text}"}
    return found


FIELDS = sorted(places("x"))
READ_BACK = ["env", "sbatch_options"]
PARTS = [*READ_BACK, *some(sorted({*FIELDS} - {*READ_BACK}), 4)]


@pytest.fixture(scope="module")
def launched(user: Any, tmp_path_factory: pytest.TempPathFactory, request: Any) -> Iterator[Any]:
    """Every field's launch, made at once: (result, names of new runs, the text)."""
    folder = tmp_path_factory.mktemp("sites")
    canary = folder / "canary"
    text = hostile(canary)

    def launch(field: Any) -> Any:
        own = User(user.env["SLURM_CONF"], folder / f"results{FIELDS.index(field)}")
        file = folder / f"site{FIELDS.index(field)}.yaml"
        file.write_text(yaml.safe_dump({**SITE, **places(text)[field]}, allow_unicode=True))
        result = own.call("launch", *POINT[:-1], f"--cluster={file}", check=False)
        return result, own

    with ThreadPoolExecutor(2) as pool:
        fields = chosen(request, "field")
        yield canary, dict(zip(fields, pool.map(launch, fields), strict=True))


@pytest.mark.parametrize("field", PARTS)
def test_of_a_field(launched: Any, field: Any) -> None:
    canary, launches = launched
    result, own = launches[field]
    assert "Traceback" not in result.stderr
    assert result.returncode in (0, 2, 3), result.stderr
    if result.returncode == 0:
        run = result.stdout.strip()
        own.wait(run, 60)
        if field == "env":
            line = next(line for line in (own.runs / run / "job.sh").read_text().splitlines() if "NASTY=" in line)
            said = own.slurm("bash", "-c", f'{line.strip()}; printf %s "$NASTY"')
            assert said == hostile(canary)
        if field == "sbatch_options":
            job = own.status(run)["job"]
            assert hostile(canary) in own.slurm("scontrol", "show", "job", job)
    assert not canary.exists()


@pytest.mark.parametrize("text", ["a\nb", "a\r\nb", "a\0b"], ids=["newline", "return", "nul"])
def test_a_line_break_is_refused_in_every_field(text: Any) -> None:
    """But in a value of the environment, which is quoted, after the header."""
    for field in sorted({*FIELDS} - {"env"}):
        with pytest.raises(ValidationError):
            pytest.fail(f"{field}: {Cluster.model_validate({'name': 'site', **SITE, **places(text)[field]})}")


def test_a_results_folder_of_a_hostile_name(slurm: Any, tmp_path: Path) -> None:
    """All of what a shell and Slurm would read otherwise, except what benchrun refuses."""
    canary = tmp_path / "canary"
    folder = tmp_path / "a \"b\" 'c' $(touch canary) `touch canary`; touch canary & # ü€ ~ * {{ 7 }}"
    folder.mkdir()
    own = User(slurm, folder)
    program = own.script('echo "started in $PWD"; exit 5')
    safe = shutil.copy(program, tmp_path / "program.sh")
    result = own.call("launch", *POINT, f"--set=cluster.python={safe}", f"--set=cluster.exclude={HERE}", check=False)
    assert "Traceback" not in result.stderr
    if result.returncode == 0:
        run = result.stdout.strip()
        assert own.wait(run, 60)["exit_code"] == 5
        assert f"started in {os.path.realpath(own.runs / run)}" in own.log(run)
    else:
        assert result.returncode == 2
        assert not own.runs.exists() or not list(own.runs.iterdir())
    assert not list(tmp_path.rglob("canary"))
    assert not canary.exists()
