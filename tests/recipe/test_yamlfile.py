"""A YAML file's values know their lines, and YAML's surprises are refused."""

from pathlib import Path
from typing import Any

import pytest

from benchrun.errors import UserError
from benchrun.recipes.resolve import resolve
from benchrun.recipes.select import Request
from benchrun.recipes.yamlfile import load, parse


def test_every_value_knows_its_line() -> None:
    document = parse("a: 1\nb:\n  - x\n  - {c: 2}\n", "f.yaml")
    assert document.where(("a",)) == "f.yaml:1"
    assert document.where(("b", 1, "c")) == "f.yaml:4"
    assert document.where(("b", 1, "unknown")) == "f.yaml:4"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-2", 0.01),
        ("1e9", 1e9),
        ("50", 50),
        ("1_000", 1000),
        ("on", "on"),
        ("no", "no"),
        ("00:30:00", "00:30:00"),
        ("null", None),
        ("~", None),
        ("true", True),
        ("'50'", "50"),
        ('"true"', "true"),
        ("0x10", "0x10"),
    ],
)
def test_scalars_mean_what_they_look_like(text: str, value: Any) -> None:
    parsed = parse(f"key: {text}", "f.yaml")["key"]
    assert parsed == value
    assert isinstance(parsed, type(value))


def test_a_key_given_twice_is_refused_with_both_lines() -> None:
    with pytest.raises(UserError) as error:
        parse("a: 1\nb: 2\na: 3\n", "f.yaml")
    assert error.value.where == "f.yaml:3"
    assert "f.yaml:1" in str(error.value.hint)


@pytest.mark.parametrize("text", ["a: [1", "- 1\n- 2\n", "", "a:\n\t- 1", "{[1]: 2}", "a: *nothing", "a: &b [*b]"])
def test_what_is_not_a_mapping_of_values_is_refused_with_its_place(text: str) -> None:
    with pytest.raises(UserError) as error:
        parse(text, "f.yaml")
    assert str(error.value.where).startswith("f.yaml")


def test_a_missing_file_is_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot be read"):
        load(tmp_path / "none.yaml")


def test_a_number_of_thousands_of_digits_is_text() -> None:
    assert parse("a: " + 5000 * "9", "x.yaml") == {"a": 5000 * "9"}


def test_aliases_that_expand_without_end_are_refused() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join(9 * [f'*a{n - 1}'])}]" for n in range(1, 9)]
    with pytest.raises(UserError):
        parse("\n".join(lines), "x.yaml")


def test_the_value_of_a_secret_is_not_shown(tmp_path: Path) -> None:
    site = tmp_path / "site.yaml"
    site.write_text('{description: x, scheduler: slurm, gpu: H100, gpus_per_node: 8, secrets: ["HF_TOKEN=hf_abcdef"]}')
    with pytest.raises(UserError) as error:
        resolve(Request("llama3.1-8b", "H100", "fp8", 8, cluster=str(site)))
    assert "secrets" in str(error.value) and "hf_abcdef" not in str(error.value)


@pytest.mark.parametrize("number", ["9223372036854775808", "-9223372036854775808", "99999999999999999999"])
def test_a_number_beyond_64_bits_is_refused_with_its_line(number: str) -> None:
    for text in (f"a: 1\nb: {number}\n", f"a: 1\nb: [1, {number}]\n"):
        with pytest.raises(UserError, match="2\\^63") as raised:
            parse(text, "x.yaml")
        assert raised.value.where == "x.yaml:2"
    assert parse(f"b: '{number}'\n", "x.yaml") == {"b": number}
    assert parse("b: 9223372036854775807\n", "x.yaml") == {"b": 2**63 - 1}


def test_such_a_number_is_refused_in_set_too() -> None:
    for key in ("training.steps", "cluster.gpus_per_node"):
        with pytest.raises(UserError, match="2\\^63") as raised:
            resolve(Request("tiny-llama", "CPU", "fp32", 1, overrides=(f"{key}={10**20}",)))
        assert raised.value.where == f"--set {key}={10**20}"


@pytest.mark.parametrize(("ranks", "word"), [("[-1]", "-1"), ("[]", "at least one"), ("[0, -3]", "-3")])
def test_profiled_ranks_begin_at_zero(ranks: str, word: str) -> None:
    with pytest.raises(UserError, match=word):
        resolve(Request("tiny-llama", "CPU", "fp32", 1, overrides=("profile.tool=kineto", f"profile.ranks={ranks}")))
