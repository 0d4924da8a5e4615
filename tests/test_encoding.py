"""Every text file is UTF-8, whatever the locale: each call that reads or writes text says so."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCES = [path for folder in ("benchrun", "datagen", "docs") for path in sorted((ROOT / folder).rglob("*.py"))]
BYTES = ("os", "tarfile", "lzma", "zipfile")
"""Modules whose ``open`` opens no text."""
STRICT = ("-X", "warn_default_encoding", "-W", "error::EncodingWarning")
"""Options of Python that make a text file without an encoding an error."""


def opens_text(call: ast.Call) -> bool:
    """Whether a call opens text without naming its encoding.

    A ``write_text`` with a name before the text is a run directory's own.
    """
    name = getattr(call.func, "attr", getattr(call.func, "id", ""))
    owner = ast.unparse(call.func.value) if isinstance(call.func, ast.Attribute) else ""
    keywords = {keyword.arg: keyword.value for keyword in call.keywords}
    if "encoding" in keywords:
        return False
    if name in ("write_text", "read_text"):
        return owner != "" and len(call.args) == (name == "write_text")
    if name in ("open", "fdopen") and owner not in (BYTES if name == "open" else ()):
        arguments = [*call.args, *keywords.values()]
        return not any(is_binary(mode) for mode in arguments)
    return any(ast.unparse(keywords[key]) == "True" for key in ("text", "universal_newlines") if key in keywords)


def is_binary(argument: ast.expr) -> bool:
    """Whether a mode such as ``"rb"`` stands in the argument."""
    texts = (part.value for part in ast.walk(argument) if isinstance(part, ast.Constant))
    return any(isinstance(text, str) and "b" in text and len(text) <= 3 for text in texts)


def calls(path: Path) -> Iterator[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and opens_text(node):
            yield f"{path.relative_to(ROOT)}:{node.lineno}: {ast.unparse(node)[:80]}"


def test_every_text_file_is_opened_as_utf_8() -> None:
    assert [call for path in SOURCES for call in calls(path)] == []


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("file.read_text()", True),
        ("open(x, 'w')", True),
        ("run(x, text=True)", True),
        ("file.read_text(encoding='utf-8')", False),
        ("open(x, 'rb')", False),
        ("os.open(x, 1)", False),
        ("run.write_text('name', text)", False),
    ],
)
def test_the_rule_itself(text: str, wrong: bool) -> None:
    call = ast.parse(text, mode="eval").body
    assert isinstance(call, ast.Call)
    assert opens_text(call) is wrong


def test_commands_never_use_the_encoding_of_the_locale(tmp_path: Path) -> None:
    point = ("tiny-llama", "--precision", "fp32", "--num-gpus", "1")
    log = sorted((ROOT / "tests/logs").glob("*.xz"))[0]
    for words in (("list",), ("render", *point), ("show", *point), ("parse", str(log)), ("report",)):
        command = [sys.executable, *STRICT, "-m", "benchrun", *words]
        result = subprocess.run(command, cwd=tmp_path, capture_output=True, encoding="utf-8", check=False)
        assert "EncodingWarning" not in result.stderr, result.stderr
        assert result.returncode in (0, 2, 4), result.stderr
