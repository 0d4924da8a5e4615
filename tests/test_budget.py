"""The size and the density of the source stay within a budget, which shrinks and never grows.

Size is counted in tokens without comments and docstrings, so that packed lines gain nothing.
`python tests/test_budget.py` prints the figures.
"""

import ast
import io
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
BESIDE_THE_CORE = {"capabilities", "worker", "trainer"}
UNCOUNTED = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)

TOKENS = 449_066
CORE_TOKENS = 221_519
COMPREHENSIONS_PER_1000_LINES = 25
TERNARIES_PER_1000_LINES = 15
LINE_LENGTH_P90 = 86


def sources() -> Iterator[Path]:
    for package in ("benchrun", "datagen"):
        yield from sorted((ROOT / package).rglob("*.py"))


def docstrings(tree: ast.AST) -> set[tuple[int, int]]:
    """Line and column of each text that stands alone as a statement."""
    places = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            places.add((node.value.lineno, node.value.col_offset))
    return places


def tokens_of(text: str) -> int:
    documentation = docstrings(ast.parse(text))
    count = 0
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        is_documentation = token.type == tokenize.STRING and token.start in documentation
        if token.type not in UNCOUNTED and not is_documentation:
            count += 1
    return count


def is_core(path: Path) -> bool:
    parts = path.relative_to(ROOT).parts
    return parts[0] == "benchrun" and not BESIDE_THE_CORE & set(parts)


def figures() -> dict[str, float]:
    tokens = core = comprehensions = ternaries = lines = 0
    lengths: list[int] = []
    for path in sources():
        text = path.read_text()
        count = tokens_of(text)
        tokens += count
        if is_core(path):
            core += count
        for node in ast.walk(ast.parse(text)):
            comprehensions += isinstance(node, COMPREHENSIONS)
            ternaries += isinstance(node, ast.IfExp)
        lines += len(text.splitlines())
        lengths += [len(line) for line in text.splitlines() if line.strip()]
    return {
        "tokens": tokens,
        "core tokens": core,
        "comprehensions per 1,000 lines": 1000 * comprehensions / lines,
        "ternaries per 1,000 lines": 1000 * ternaries / lines,
        "90th percentile of line length": sorted(lengths)[int(0.9 * len(lengths))],
    }


def test_the_source_stays_within_its_budget() -> None:
    found = figures()
    budget = (
        TOKENS,
        CORE_TOKENS,
        COMPREHENSIONS_PER_1000_LINES,
        TERNARIES_PER_1000_LINES,
        LINE_LENGTH_P90,
    )
    over = {name: value for (name, value), most in zip(found.items(), budget, strict=True) if value > most}
    assert over == {}


if __name__ == "__main__":
    for name, value in figures().items():
        sys.stdout.write(f"{name}: {value:,.1f}\n")
