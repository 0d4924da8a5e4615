"""Traces of other exporters, older versions and unlucky jobs: they are read alike, or refused in one sentence."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from made import call, host, kernel
from test_nsight import KERNEL, PROCESS, STRINGS, export, measured, row

from benchrun import api
from benchrun.capabilities.traces.json_stream import JsonTrace, NoTrace
from benchrun.capabilities.traces.kernels import pattern_of
from benchrun.capabilities.traces.window import Choice
from benchrun.errors import UserError
from benchrun.rundir.fingerprint import Fingerprint

Event = dict[str, Any]
USUAL: list[Event] = [
    *(host(start, 100, f"ProfilerStep#{number}") for number, start in enumerate((0, 100, 200, 300))),
    *(call(start + 5, 2, start + 1) for start in (0, 100, 200, 300)),
    *(kernel(start + 10, 30, link=start + 1) for start in (0, 100, 200, 300)),
    kernel(60, 20, "elementwise", link=2),
    call(45, 2, 2),
]


def read(tmp_path: Path, events: Any, window: Choice = "device", **properties: Any) -> Fingerprint:
    file = tmp_path / "trace.json"
    file.write_text(json.dumps({**properties, "traceEvents": events}))
    return api.fingerprint_of([file], window)[0]


def begun_and_ended(event: Event) -> list[Event]:
    """The same as a pair of events, of which the second has no name."""
    first = {key: value for key, value in event.items() if key != "dur"}
    return [
        {**first, "ph": "B"},
        {"ph": "E", "pid": event["pid"], "tid": event["tid"], "ts": event["ts"] + event["dur"]},
    ]


WRITTEN: dict[str, Callable[[Event], list[Event]]] = {
    "times as text": lambda event: [{**event, "ts": str(event["ts"]), "dur": str(event["dur"])}],
    "numbers as text": lambda event: [{**event, "args": {key: str(value) for key, value in event["args"].items()}}],
    "begin and end": begun_and_ended,
    "times since 1970": lambda event: [{**event, "ts": event["ts"] + 1.7e15}],
    "arrows, marks and names between": lambda event: [
        event,
        {"ph": "s", "id": 1, "cat": "ac2g", "name": "ac2g", "pid": 9, "tid": 1, "ts": event["ts"]},
        {"ph": "f", "id": 1, "cat": "ac2g", "name": "ac2g", "pid": 0, "tid": 7, "ts": event["ts"], "bp": "e"},
        {"ph": "M", "name": "process_name", "pid": 0, "args": {"name": "python"}},
        {"ph": "i", "name": "Record", "ts": 3, "s": "g"},
    ],
    "values that are no events": lambda event: [event, None, 3],  # type: ignore[list-item]
    "kernels that have not ended": lambda event: (
        [event, {**event, "dur": None}] if event["cat"] == "kernel" else [event]
    ),
    "a negative length": lambda event: [event, kernel(20, -5)],
    "a range of the GPU around all": lambda event: [event, {**kernel(0, 400), "cat": "gpu_user_annotation"}],
    "no category": lambda event: [event, {"ph": "X", "ts": 1, "dur": 9}, {**kernel(20, 5), "cat": None}],
}


@pytest.mark.parametrize("way", WRITTEN)
def test_one_trace_written_in_other_ways_is_the_same(tmp_path: Path, way: str) -> None:
    (usual,) = read(tmp_path, USUAL).ranks
    (rank,) = read(tmp_path, [each for event in USUAL for each in WRITTEN[way](event)]).ranks
    assert rank == usual
    assert rank.compute + rank.exposed_comm + rank.copies + rank.idle == pytest.approx(1)


@pytest.mark.parametrize("args", [None, {}])
def test_without_arguments_causes_of_idle_time_are_unknown(tmp_path: Path, args: Any) -> None:
    (rank,) = read(tmp_path, [{**event, "args": args} for event in USUAL]).ranks
    assert (rank.compute, rank.idle_by_cause) == (read(tmp_path, USUAL).ranks[0].compute, None)


def test_a_kernel_without_a_name_computes(tmp_path: Path) -> None:
    nameless = {key: value for key, value in kernel(100, 10).items() if key != "name"}
    assert read(tmp_path, [*USUAL, nameless]).ranks[0].compute > read(tmp_path, USUAL).ranks[0].compute


PROPERTIES: list[dict[str, Any]] = [
    {"distributedInfo": [1], "deviceProperties": "x"},
    {"distributedInfo": "x", "deviceProperties": [1, None]},
    {"distributedInfo": {"rank": None, "pg_config": [5, {"pg_name": "0", "ranks": "[0, 1"}]}},
]


@pytest.mark.parametrize("properties", PROPERTIES)
def test_strange_properties_hide_nothing(tmp_path: Path, properties: dict[str, Any]) -> None:
    assert read(tmp_path, USUAL, **properties).ranks == read(tmp_path, USUAL).ranks


def test_a_context_on_another_device_is_no_rank(tmp_path: Path) -> None:
    many = [
        event
        for step in range(60)
        for event in (kernel(100 * step, 50, device=3), kernel(100 * step + 60, 9, device=3))
    ]
    touched = [*many, kernel(5, 1, "Memset", device=0)]
    (rank,) = read(tmp_path, touched, distributedInfo={"rank": "3", "world_size": "8"}).ranks
    assert (rank.rank, rank.device) == (3, 3)
    assert [rank.device for rank in read(tmp_path, touched).ranks] == [0, 3]


def test_whole_steps_without_a_kernel_are_idle(tmp_path: Path) -> None:
    marks = [host(100 * number, 100, f"ProfilerStep#{number}") for number in range(6)]
    (rank,) = read(tmp_path, [*marks, kernel(10, 5), kernel(520, 5)], "steps").ranks
    assert (rank.compute, rank.idle) == (0, 1)


@pytest.mark.parametrize(
    ("events", "words"),
    [
        ([kernel(5, 0)], "no length"),
        ([], "no event of a GPU"),
        ([host(0, 10, "aten::mm", "cpu_op")], "no event of a GPU"),
        ([{**kernel(0, 5), "ts": "soon"}], "damaged event"),
        ([{**kernel(0, 5), "ts": 1e30}], "damaged event"),
        ([{**kernel(0, 5), "args": [1]}], "damaged event: its args is .1., expected an object"),
        ([{**kernel(0, 5), "args": "abc"}], 'its args is "abc", expected an object'),
        ([{**kernel(0, 5), "cat": 5}], "its cat is 5, expected a text"),
        ([{**kernel(0, 5), "cat": ["kernel"]}], "its cat is .*, expected a text"),
        ([{**kernel(0, 5), "name": 5}], "its name is 5, expected a text"),
        ([{**kernel(0, 5), "ts": None}], "it has no ts"),
        ([{**kernel(0, 5), "dur": True}], "its dur is true, expected a number"),
    ],
)
def test_what_cannot_be_read_is_refused_in_one_sentence(tmp_path: Path, events: list[Event], words: str) -> None:
    with pytest.raises(UserError, match=words):
        read(tmp_path, events)


@pytest.mark.parametrize("name", [3, ["NVIDIA H200"], True])
def test_a_name_of_a_gpu_that_is_no_text_is_refused_with_what_would_be_right(tmp_path: Path, name: Any) -> None:
    with pytest.raises(UserError, match="deviceProperties") as error:
        read(tmp_path, USUAL, deviceProperties=[{"id": 0, "name": name}])
    assert "trace.json" in str(error.value)
    assert "NVIDIA H200" in str(error.value.hint)


def test_a_file_that_was_cut_is_refused_packed_or_not(tmp_path: Path) -> None:
    text = json.dumps({"traceEvents": USUAL}).encode()
    for name, content in (("a.json", text[:-40]), ("a.json.gz", gzip.compress(text)[:-20])):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(UserError):
            api.fingerprint_of([tmp_path / name])


@pytest.mark.parametrize("ranks", [1, 2, 8])
def test_each_of_many_ranks_adds_up(tmp_path: Path, ranks: int) -> None:
    for rank in range(ranks):
        text = json.dumps({"traceEvents": USUAL, "distributedInfo": {"rank": rank}}).encode()
        (tmp_path / f"host_{rank}.pt.trace.json.gz").write_bytes(gzip.compress(text))
    result = api.fingerprint_of([tmp_path])[0]
    assert [rank.rank for rank in result.ranks] == list(range(ranks))
    assert all(rank.compute + rank.idle == pytest.approx(1) for rank in result.ranks)


CLASSES = {
    "nvjet_sm100_tst_256x128_64x6_2x1_2cta_v_bz_TNT": "matmul",
    "cutlass3x_sm100_tensorop_s256x128x16gemm_bf16_bf16_f32": "matmul",
    "void cutlass::device_kernel<at::cuda::detail::enable_3x_kernel_for_sm9x<cutlass::": "matmul",
    "sm80_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x32_stage4": "matmul",
    "ampere_bf16_s16816gemm_bf16_256x128_ldg8_f2f_stages_64x3_nt": "matmul",
    "cudnn_generated_fort_native_sdpa_sm100_flash_fprop_f16_knob_7": "attention",
    "void cutlass::device_kernel<flash::enable_sm90_or_later<flash::FlashAttnFwdSm90<flash::Collective": "attention",
    "fmhaSm100aKernel_QkvBfloat16OBfloat16H128": "attention",
    "triton_tem_fused_flex_attention_0": "attention",
    "ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)": "communication",
    "ncclSymkDevKernel_AllReduce_AGxLLMC_R(ncclSymkDevWorkArgs)": "communication",
    "void deep_ep::internode_ll::dispatch<true, 3, 10, 7168>": "communication",
    "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<c10::BFloat16>": "memory_bound",
}


@pytest.mark.parametrize("name", CLASSES)
def test_kernels_of_every_generation_have_their_class(name: str) -> None:
    pattern = pattern_of(name)
    assert pattern is not None
    assert pattern.kernel_class == CLASSES[name]


NVTX = {"start": 0, "end": 950, "globalTid": PROCESS, "eventType": 59}


@pytest.mark.parametrize("text", [{"text": "train"}, {"textId": 9}, {"text": None, "textId": 9}])
def test_nvtx_texts_are_inline_or_numbered(tmp_path: Path, text: dict[str, Any]) -> None:
    strings = [*STRINGS, {"id": 9, "value": "train"}]
    kernels = [row(0, 400, demangledName=1), row(900, 1000, demangledName=1)]
    file = export(tmp_path / "t.sqlite", StringIds=strings, NVTX_EVENTS=[{**NVTX, **text}], **{KERNEL: kernels})
    assert [each.name for each in api.fingerprint_of([file])[0].ranges] == ["train"]


@pytest.mark.parametrize("interface", ["RUNTIME", "DRIVER"])
def test_calls_of_either_interface_and_without_a_process(tmp_path: Path, interface: str) -> None:
    kernels = [row(0, 400, demangledName=1), row(900, 1000, demangledName=1, correlationId=2)]
    kernels = [{key: value for key, value in each.items() if key != "globalPid"} for each in kernels]
    calls = [{"start": 500, "end": 510, "nameId": 2, "globalTid": PROCESS, "correlationId": 2}]
    tables = {KERNEL: kernels, f"CUPTI_ACTIVITY_KIND_{interface}": calls}
    rank = measured(export(tmp_path / "t.sqlite", StringIds=STRINGS, **tables))
    assert rank.idle_by_cause is not None
    assert rank.idle_by_cause.host == rank.idle == 0.5


def test_the_name_of_a_gpu_in_versions_without_its_cuda_number(tmp_path: Path) -> None:
    tables = {KERNEL: [row(0, 400, demangledName=1)], "TARGET_INFO_GPU": [{"id": 0, "name": "NVIDIA B200"}]}
    assert measured(export(tmp_path / "t.sqlite", StringIds=STRINGS, **tables)).gpu == "NVIDIA B200"


def test_kernels_of_a_graph_that_was_traced_by_node_are_the_ranks(tmp_path: Path) -> None:
    nodes = [
        row(start, start + 50, demangledName=1, graphNodeId=start, correlationId=1) for start in range(0, 1000, 100)
    ]
    rank = measured(export(tmp_path / "t.sqlite", StringIds=STRINGS, **{KERNEL: nodes}))
    assert rank.compute == pytest.approx(500 / 950)


def test_time_of_the_host_outside_the_window_is_said(tmp_path: Path) -> None:
    """A loader before the only step's first kernel."""
    events = [host(0, 400, "dataloader_next"), call(405, 2, 1), kernel(410, 100, link=1), call(300, 1, 7)]
    (note,) = (note for note in read(tmp_path, events).notes if "outside" in note)
    assert "0.00041 s before" in note
    assert "data in 0.0004 s" in note
    inside = [event for event in USUAL if event["cat"] != "user_annotation"]
    assert not [note for note in read(tmp_path, inside).notes if "outside" in note]


def test_whole_steps_that_wait_longer_for_data_than_the_window_are_said() -> None:
    loader = Path(__file__).parent / "traces/nsys_2025_h200_slow_loader.sqlite.xz"
    here, whole = (api.fingerprint_of([loader], window)[0] for window in ("device", "steps"))
    shares = [100 * each.ranks[0].idle_by_cause.data for each in (whole, here) if each.ranks[0].idle_by_cause]
    (note,) = (note for note in here.notes if "--window steps" in note)
    assert f"{shares[0]:.1f} %" in note
    assert f"{shares[1]:.1f} %" in note
    assert not [note for note in whole.notes if "--window" in note]


def test_a_log_is_no_damaged_trace(tmp_path: Path) -> None:
    (tmp_path / "slurm-1.out").write_text("[NeMo I 2026-11-23] Rank 0 has data parallel group : [0]\n" * 9)
    with pytest.raises(NoTrace):
        list(JsonTrace(tmp_path / "slurm-1.out").batches())
