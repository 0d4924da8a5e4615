"""`benchrun.api` is the documented Python API: what it lists exists, has a docstring, and is imported when used."""

import subprocess
import sys

import pytest

import benchrun
from benchrun import api


def test_every_name_of_the_api_is_documented() -> None:
    assert [name for name in api.__all__ if not (getattr(api, name).__doc__ or "").strip()] == []


def test_the_api_imports_nothing_before_it_is_used() -> None:
    code = "import sys, benchrun.api\n"
    code += "print(sorted({'pydantic', 'yaml', 'numpy', 'click', 'benchrun.jobs'} & set(sys.modules)))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_a_notebook_completes_the_names_of_the_api() -> None:
    assert dir(api) == sorted(api.__all__)
    assert {*benchrun.__all__} <= {*dir(benchrun)}


def test_a_name_that_it_lacks_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError):
        api.no_such_use_case  # noqa: B018
