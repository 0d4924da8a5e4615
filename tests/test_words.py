"""Plain English: names are nouns for values and verbs for functions, and prose has none of the phrases below."""

import ast
import io
import re
import tokenize
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCES = sorted(path for room in ("benchrun", "datagen") for path in (ROOT / room).rglob("*.py"))
PAGES = sorted({*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("*/README.md"), *ROOT.glob("*/*/README.md")})
VAGUE_NAMES = frozenset(
    [
        "said",
        "says",
        "found",
        "theirs",
        "told",
        "tells",
        "kept",
        "known",
        "ours",
        "unable",
        "held",
        "foretold",
        "instead",
    ]
)
"""Names that do not say what they hold."""
JSON_KEYS = {
    ("conditions.py", "ours"),
    ("conditions.py", "theirs"),
    ("doctor.py", "found"),
    ("site_checks.py", "found"),
}
"""Fields whose names are keys of a JSON contract."""
PHRASES = (
    r"\ba GPU\b(?= (?:and|per) )",
    r"\bis said\b",
    r"\bsays nothing\b",
    r"\bgone on with\b",
    r"\bwithout a word\b",
    r"\bforetell|\bforetold\b",
    r"\bof its own accord\b",
    r"\bwhose log it is\b",
    r"\bthe while\b",
    r"\bnobody (?:says|said|knows)\b",
)
"""Phrases that a reader would have to translate."""


def names(path: Path) -> set[tuple[int, str]]:
    """Line and name of everything that a file defines: variables, arguments, functions, classes, fields."""
    defined = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            defined.add((node.lineno, node.id))
        elif isinstance(node, ast.arg):
            defined.add((node.lineno, node.arg))
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            defined.add((node.lineno, node.name))
    return defined


def prose(path: Path) -> list[tuple[int, str]]:
    """Line and text of the comments and strings of a Python file, or every line of a page."""
    if path.suffix != ".py":
        return list(enumerate(path.read_text().splitlines(), 1))
    tokens = tokenize.generate_tokens(io.StringIO(path.read_text()).readline)
    return [(token.start[0], token.string) for token in tokens if token.type in (tokenize.COMMENT, tokenize.STRING)]


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_names_say_what_they_hold(path: Path) -> None:
    vague = [(line, name) for line, name in sorted(names(path)) if name.strip("_") in VAGUE_NAMES]
    assert [(line, name) for line, name in vague if (path.name, name) not in JSON_KEYS] == []


@pytest.mark.parametrize("path", [*SOURCES, *PAGES], ids=lambda path: str(path.relative_to(ROOT)))
def test_prose_is_plain(path: Path) -> None:
    odd = [
        f"{path.name}:{line}: {match[0]}"
        for line, text in prose(path)
        for phrase in PHRASES
        if (match := re.search(phrase, text, re.I))
    ]
    assert odd == []
