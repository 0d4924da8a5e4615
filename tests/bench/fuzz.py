"""Fuzz the parser, guided by coverage: every input is parsed, summarised and written as JSON.

    python3 -m venv /tmp/fuzzvenv
    /tmp/fuzzvenv/bin/pip install atheris numpy pydantic click jinja2 pyyaml rich pandas zstandard
    PYTHONPATH=. /tmp/fuzzvenv/bin/python tests/bench/fuzz.py --runs 1000000 --seed 1 --output /tmp/fuzz-1

An input is a log of a few KB, mutated by lines as well as by bytes. What fails does not end the run: the first input of
every place that raises, takes longer than HANG_S or contradicts itself goes to a file in ``--output``, and the counts
are printed at the end. Every fourth input or so is also read a second way, which must say the same. One process uses
one core: start several with seeds and outputs of their own. The exit code is 1 where something failed.
"""

import argparse
import ast
import json
import lzma
import os
import random
import re
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from zlib import crc32

import atheris

ROOT = Path(__file__).parents[2]
HANG_S = 5.0
"""Of processor time."""
LONGEST = 2048
NEAR_STEP = re.compile(rb"elapsed time per iteration|train_step_timing|Step Time :|completed step:|tps: |'loss':|%\|")
NUMBERS = (
    *(b"0", b"-1", b"1e400", b"-1e400", b"nan", b"inf", b"-inf", b"1000000000000000000000000000000", b"1e-320"),
    *(b"999999999999999", b"2147483648", b"65536", b"1_000", b"1,000", b"\xd9\xa3", b"1.2.3", b"5K", b"0x10", b""),
)
PIECES = (b"\r", b"\r\n", b"\x00", b"\x1b[32m", b"\xff\xfe", b"\n", b" | ", b"[rank3]: ", b"}", b"]", b"\xef\xbb\xbf")
SIMPLE = ["benchrun.logs.columns", "benchrun.measure.rows"]
"""Arithmetic on arrays: few branches to find, and atheris 3.0 keeps some memory of every comparison of arrays."""

with atheris.instrument_imports(include=["benchrun.logs", "benchrun.frameworks", "benchrun.measure"], exclude=SIMPLE):
    from benchrun.frameworks.logs import DIALECTS, Reader
    from benchrun.logs import Log, forms, problems, reader
    from benchrun.measure import summary


class Hang(BaseException):
    """No Exception, so that nothing catches it on the way."""


def dialect_lines() -> list[bytes]:
    """The lines of tests/parse/test_dialects.py: its strings, without importing pytest."""
    tree = ast.parse((ROOT / "tests/parse/test_dialects.py").read_text())
    constants = [node.value for node in tree.body if isinstance(node, ast.Assign)]
    texts = [node.value for node in constants if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    return [text.encode() for text in texts]


def seeds() -> list[bytes]:
    """The dialects' lines, and cuts of the real logs around their step lines."""
    found = [line + b"\n" for line in dialect_lines()]
    for path in sorted((ROOT / "tests/logs").glob("*.xz")):
        data = lzma.decompress(path.read_bytes())
        places = [match.start() for match in NEAR_STEP.finditer(data)]
        for at in {0, *places[:1], *places[len(places) // 2 :][:1], *places[-1:]}:
            start = max(0, at - LONGEST // 4)
            found.append(data[start : start + LONGEST])
    return found


def needles() -> set[bytes]:
    """All that the reader looks for."""
    words = set(problems.NEEDLES)
    for dialect in DIALECTS.values():
        words |= {*dialect.step_needles, *dialect.fact_needles}
    return words


class Mutator:
    """Changes whole lines and numbers, which bytes changed at random nearly never hit."""

    def __init__(self, lines: list[bytes], words: list[bytes]) -> None:
        self._lines, self._words = lines, words

    def __call__(self, data: bytes, longest: int, seed: int) -> bytes:
        """A neighbour of ``data``."""
        chance = random.Random(seed)
        if chance.random() < 0.3:
            return atheris.Mutate(data, longest)
        for _ in range(chance.choice((1, 1, 2, 4))):
            data = chance.choice((self._by_line, self._by_number, self._by_piece))(data, chance)
        return data[:longest]

    def _by_line(self, data: bytes, chance: random.Random) -> bytes:
        lines = data.splitlines(keepends=True) or [b"\n"]
        at, other = chance.randrange(len(lines)), chance.randrange(len(lines))
        match chance.randrange(6):
            case 0:
                del lines[at]
            case 1:
                lines.insert(other, lines[at])
            case 2:
                lines[at], lines[other] = lines[other], lines[at]
            case 3:
                lines.insert(at, chance.choice(self._lines) + chance.choice((b"\n", b"\r", b"\r\n", b"", b" ")))
            case 4:
                lines[at] = lines[at][: chance.randrange(len(lines[at]) + 1)]
            case _:
                lines[at] = lines[at] * chance.choice((2, 3, 20))
        return b"".join(lines)

    def _by_number(self, data: bytes, chance: random.Random) -> bytes:
        numbers = list(re.finditer(rb"\d+(?:\.\d+)?", data))
        if not numbers:
            return data
        chosen = chance.choice(numbers)
        value = chance.choice((*NUMBERS, str(chance.randrange(100)).encode(), chance.choice(numbers)[0]))
        return data[: chosen.start()] + value + data[chosen.end() :]

    def _by_piece(self, data: bytes, chance: random.Random) -> bytes:
        at = chance.randrange(len(data) + 1)
        return data[:at] + chance.choice((chance.choice(PIECES), chance.choice(self._words))) + data[at:]


def read(*chunks: bytes) -> Log:
    """One file that comes in these chunks."""
    reading = Reader()
    for chunk in chunks:
        reading.feed(chunk)
    reading.end()
    return reading.log("x")


def told(log: Log) -> str:
    """All that a log says, as text: a NaN equals itself there."""
    return repr((log.framework, list(log.steps), log.segments, vars(log.facts), log.problems))


def same_in_blocks(data: bytes) -> None:
    """Read in blocks of a few lines, whole where that is possible, it says what it says line by line."""
    lines = data.splitlines(keepends=True)
    size = 2 + len(lines) % 7
    forms.MOST_ODD = 1.0  # a few lines are a block here
    blocks = [b"".join(lines[at : at + size]) for at in range(0, len(lines), size)]
    usual, texts = reader.DENSE, []
    for dense in (1 << 30, 0):
        reader.DENSE = dense
        texts.append(told(read(*blocks)))
    reader.DENSE = usual
    if texts[0] != texts[1]:
        raise AssertionError(f"in blocks: {texts[0]}\nby lines:  {texts[1]}")


def same_in_pieces(data: bytes) -> None:
    """However its bytes come, it says the same."""
    size = 1 + len(data) % 97
    whole, pieces = told(read(data)), told(read(*(data[at : at + size] for at in range(0, len(data), size))))
    if whole != pieces:
        raise AssertionError(f"whole:         {whole}\nby {size} bytes: {pieces}")


class Fuzzer:
    """Runs inputs until the budget is used up, and remembers what went wrong where."""

    def __init__(self, output: Path, checks: list[Callable[[bytes], None]], *, runs: int, seconds: float) -> None:
        self._output, self._checks = output, checks
        self._runs, self._seconds = runs, seconds
        self._start = time.monotonic()
        self._inputs = 0
        self._slowest_s = 0.0
        self._failures: Counter[str] = Counter()

    def __call__(self, data: bytes) -> None:
        """One input; never raises, and ends the process after the last."""
        self._inputs += 1
        start = time.process_time()
        signal.setitimer(signal.ITIMER_VIRTUAL, HANG_S)
        try:
            self._run(data)
        except (Exception, Hang) as error:
            self._note(data, error)
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        self._slowest_s = max(self._slowest_s, time.process_time() - start)
        if self._inputs >= self._runs or time.monotonic() - self._start >= self._seconds:
            self._report()
            os._exit(1 if self._failures else 0)  # libFuzzer has no other way to stop

    def _report(self) -> None:
        seconds = time.monotonic() - self._start
        failures = "\n".join(f"{count:8d}  {place}" for place, count in self._failures.most_common()) or "none"
        text = f"{self._inputs} inputs in {seconds:.0f} s, the slowest {self._slowest_s:.2f} s; failures:\n{failures}\n"
        (self._output / "report.txt").write_text(text)
        sys.stderr.write(text)
        sys.stderr.flush()

    def _run(self, data: bytes) -> None:
        json.dumps(summary.summarise(read(data)).model_dump(mode="json"), allow_nan=False).encode()
        turn = crc32(data) % (4 * max(1, len(self._checks)))
        if turn < len(self._checks):
            self._checks[turn](data)

    def _note(self, data: bytes, error: BaseException) -> None:
        frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "atheris" not in frame.filename]
        inside = [frame for frame in frames if "/benchrun/" in frame.filename] or frames
        place = f"{type(error).__name__}-{Path(inside[-1].filename).stem}-{inside[-1].name}-{inside[-1].lineno}"
        self._failures[place] += 1
        if self._failures[place] == 1:
            (self._output / place).write_bytes(data)
            text = "".join(traceback.format_exception(error))
            (self._output / f"{place}.txt").write_text(f"{data!r}\n\n{text}", errors="replace")


def on_time_up(*_: object) -> None:
    """The processor time of one input is used up."""
    raise Hang


def main() -> None:
    """Fuzz until the time or the number of inputs is used up."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=1_000_000, help="inputs at most")
    parser.add_argument("--seconds", type=float, default=3600, help="at most")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--output", type=Path, default=Path("/tmp/benchrun-fuzz"))
    parser.add_argument("--checks", default="blocks", help="what else is compared: blocks, pieces, or both")
    options = parser.parse_args()

    corpus, dictionary = options.output / "corpus", options.output / "needles.dict"
    corpus.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(seeds()):
        (corpus / f"seed-{number}").write_bytes(seed)
    words = sorted(needles())
    dictionary.write_text("".join('"' + "".join(f"\\x{byte:02x}" for byte in word) + '"\n' for word in words))

    known = {"blocks": same_in_blocks, "pieces": same_in_pieces}
    checks = [known[name] for name in options.checks.split(",") if name]
    signal.signal(signal.SIGVTALRM, on_time_up)
    arguments = [
        *(sys.argv[0], str(corpus), f"-dict={dictionary}", f"-max_len={LONGEST}", f"-seed={options.seed}"),
        *("-timeout=3600", "-rss_limit_mb=4096", f"-artifact_prefix={options.output}/"),
    ]
    fuzzer = Fuzzer(options.output, checks, runs=options.runs, seconds=options.seconds)
    atheris.Setup(arguments, fuzzer, custom_mutator=Mutator(dialect_lines(), words))
    atheris.Fuzz()


if __name__ == "__main__":
    main()
