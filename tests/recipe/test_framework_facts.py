"""What the files of the frameworks state is complete and agrees with specs that were written before they stated it."""

import json
from pathlib import Path
from typing import Any

import pytest

from benchrun.errors import UserError
from benchrun.frameworks.base import PARALLELISM, WORKER_OPTIONS, Framework
from benchrun.frameworks.registry import FRAMEWORKS, framework, names
from benchrun.recipes.capability import DEFAULTS
from benchrun.runspec.identity import value_of
from benchrun.runspec.spec import RunSpec

GOLDEN = [json.loads(line)["spec"] for line in (Path(__file__).parent / "identities.jsonl").read_text().splitlines()]
EACH = pytest.mark.parametrize("each", FRAMEWORKS.values(), ids=lambda each: each.name)


RECORDER = {"TORCH_NCCL_TRACE_BUFFER_SIZE", "TORCH_NCCL_DUMP_ON_TIMEOUT", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE"}
RECORDER |= {"NCCL_DEBUG", "NCCL_DEBUG_SUBSYS", "NCCL_DEBUG_FILE"}
"""Variables of PyTorch's Flight Recorder and of NCCL's own lines, which specs of older versions lack."""


@pytest.mark.parametrize("document", GOLDEN, ids=lambda document: f"{document['recipe']}-{document['framework']}")
def test_every_variable_has_its_value_and_a_reason(document: dict[str, Any]) -> None:
    spec = RunSpec.model_validate(document)
    variables = framework(spec.framework).environment(spec)
    values = {name: variable.value for name, variable in variables.items() if name not in RECORDER}
    assert values.items() <= (spec.env | spec.replaced_env).items()
    assert all(variable.why and "\n" not in variable.why for variable in variables.values())


@pytest.mark.parametrize("document", GOLDEN, ids=lambda document: f"{document['recipe']}-{document['framework']}")
def test_a_document_without_its_data_format_gets_the_frameworks(document: dict[str, Any]) -> None:
    assert "data_format" not in document
    spec = RunSpec.model_validate(document)
    assert spec.data_format == framework(spec.framework).data_format(spec.task)


@EACH
def test_the_fields_that_a_framework_names_exist(each: Framework) -> None:
    for field in each.fixed:
        value_of(DEFAULTS, field)
    for option in WORKER_OPTIONS:
        value_of(DEFAULTS.training, option)
    assert set(each.options) <= set(WORKER_OPTIONS)
    assert set(each.degrees) <= set(PARALLELISM)


@EACH
def test_its_templates_exist(each: Framework) -> None:
    for template in (each.template, *(f"frameworks/{name}.j2" for name in each.files)):
        assert (each.folder / template).is_file()


def test_a_name_that_is_none_is_refused_with_the_closest() -> None:
    with pytest.raises(UserError) as error:
        framework("nemo3")
    assert "did you mean 'nemo" in str(error.value.hint)


def test_names_are_those_for_which_a_condition_holds() -> None:
    assert names() == sorted(FRAMEWORKS)
    assert names(lambda each: each.own_worker) == ["hf", "megatron-core", "trl"]
