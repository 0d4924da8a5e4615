"""The transcripts of the tutorials on a cluster are what its user sees."""

from pathlib import Path
from typing import Any

import pytest

from tests.docs.test_tutorials import ON_SLURM, PAGES
from tests.docs.transcripts import Shell, check

from .conftest import path_of


@pytest.mark.thorough
@pytest.mark.parametrize("page", [page for page in PAGES if page.name in ON_SLURM], ids=lambda page: page.name)
def test_the_commands_print_what_the_page_shows(slurm: str, page: Path, tmp_path: Path, request: Any) -> None:
    shell = Shell(tmp_path, SLURM_CONF=slurm, PATH=path_of(Path(slurm).parents[1]))
    check(page, shell, update=request.config.getoption("--update-transcripts"))
