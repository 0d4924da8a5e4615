"""The last sentence of a fingerprint, the kernels of its classes, and the picture of the ranks over time."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from test_fingerprint_cli import call

from benchrun.capabilities.traces.sentence import sentence
from benchrun.rundir.fingerprint import Fingerprint

TRACES = Path(__file__).parent / "traces"
PIPELINE = TRACES / "h200_llama_tp2_pp2_bf16"


def shares(rank: int, **parts: Any) -> dict[str, Any]:
    causes = parts.pop("causes", None)
    classes = {"matmul": 0.5, "attention": 0.1, "memory_bound": 0.1, "communication": 0.1}
    idle = sum(causes.values()) if causes else parts.pop("idle", 0.0)
    of_rank = {
        "rank": rank,
        "device": rank,
        "host": "n1",
        "gpu": None,
        "file": "x",
        "window_s": 1.0,
        "hidden_comm": 0.0,
    }
    of_rank |= {"exposed_comm": 0.0, "copy": 0.0, "idle": idle, "idle_by_cause": causes, "classes": classes, **parts}
    return of_rank | {"compute": 1 - of_rank["exposed_comm"] - of_rank["copy"] - idle}


def idle(**causes: float) -> dict[str, float]:
    return {"host": 0.0, "launch_gap": 0.0, "data": 0.0, "sync": 0.0, **causes}


def collective(waiting_s: float) -> dict[str, Any]:
    times = {"duration_s": 0.3, "transfer_s": 0.3 - waiting_s, "waiting_s": waiting_s, "busbw_gb_s": None}
    return {"name": "all_reduce", "group": "dp", "ranks": [0, 1], "count": 9, "bytes": None, **times}


def said(collectives: Any = (), stragglers: Any = (), **parts: Any) -> str:
    document = {"window": "device", "window_s": 1.0, "steps": None, "unknown_share": 0.0, "unknown_kernels": []}
    document |= {"ranges": [], "products": [], "notes": [], "collectives": list(collectives)}
    kernel = {"name": "nvjet_x", "class": "matmul", "count": 3, "share": 0.4}
    document |= {"stragglers": list(stragglers), "kernels": [kernel], "ranks": [shares(0, **parts), shares(1, **parts)]}
    return sentence(Fingerprint.model_validate(document))


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ({"causes": idle(data=0.3, host=0.1)}, ("30 %", "loader")),
        ({"causes": idle(host=0.2)}, ("20 %", "too late", "CUDA graphs")),
        ({"causes": idle(sync=0.2)}, ("20 %", ".item()")),
        ({"idle": 0.2}, ("20 %", "profile the CPU")),
        ({"copy": 0.2}, ("20 %", "pinned")),
        ({"exposed_comm": 0.3, "collectives": [collective(0.25)]}, ("25 %", "wait", "all_reduce of dp")),
        ({"exposed_comm": 0.3, "collectives": [collective(0.05)]}, ("25 %", "no kernel hides")),
        ({"exposed_comm": 0.3, "stragglers": [{"rank": 1, "host": "n7", "behind_s": 0.28}]}, ("28 %", "rank 1 on n7")),
        ({"idle": 0.01}, ("No loss", "50 % are matmul kernels", "nvjet_x")),
    ],
)
def test_the_sentence_names_the_largest_loss_and_the_advice(parts: dict[str, Any], words: tuple[str, ...]) -> None:
    text = said(**parts)
    assert [word for word in words if word not in text] == [], text


def test_every_class_has_its_kernels() -> None:
    code, out, _ = call(PIPELINE, "--json")
    found = json.loads(out)
    assert code == 0
    for name in ("matmul", "attention", "memory_bound", "communication"):
        own = [kernel for kernel in found["kernels"] if kernel["class"] == name]
        union = sum(rank["classes"][name] for rank in found["ranks"]) / len(found["ranks"])
        # Kernels of several streams overlap, and one may cross the edge of the window.
        assert 0.95 * union <= sum(kernel["share"] for kernel in own) <= 1.3 * union
        listed = call(PIPELINE, "--kernels", name)[1]
        assert len(listed.splitlines()) == len(own) + 1
    assert call(PIPELINE)[1].rstrip().endswith(found["sentence"].rsplit(" ", 1)[1])


def test_the_picture_has_a_row_for_each_rank_and_the_shares_of_the_fingerprint(tmp_path: Path) -> None:
    page = tmp_path / "ranks.html"
    assert call(PIPELINE, "--html", page)[0] == 0
    text = page.read_text()
    found = json.loads(call(PIPELINE, "--json")[1])
    for rank in found["ranks"]:
        cells = re.findall(rf'width="(\d+)"[^>]*><title>rank {rank["rank"]}: ([a-z ]+),', text)
        exposed = sum(int(width) for width, doing in cells if doing == "exposed communication")
        assert exposed / sum(int(width) for width, _ in cells) == pytest.approx(rank["exposed_comm"], abs=0.06)
    code, _, err = call(PIPELINE, "--html", page)
    assert (code, "exists" in err) == (2, True)
