"""Make large logs on the spot: the same seed gives the same bytes.

    python tests/bench/make_logs.py noise --output noise.log
    python tests/bench/make_logs.py ranks --bytes 4e9 --output ranks.log

noise   500 Megatron-LM core 0.16 steps in the chatter of 64 ranks under ``srun --label``: 278 MB
ranks   the same of 2304 ranks: 4 GB
steps   Megatron step lines and nothing else: 200 MB
titan, nemo2, hf    the step lines of torchtitan (with colours), NeMo 2 and the Hugging Face Trainer: 50 MB
bars    the Trainer's bars with dictionaries between them, which have no clock: 50 MB
bridge, maxtext, paxml, nanotron, deepspeed, nemo1, dllogger    of those: 50 MB

A tenth of the chatter stands before the first step, as NCCL and the checkpoint loader are loudest then. Lines are made
once with numbers of their own, a few MB of them, and then drawn again and again: the parser cannot tell.
"""

import argparse
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from random import Random
from statistics import mean

STEPS = 500
BEFORE_FIRST = 0.1
PAGE_LINES, PAGES = 32, 4096
RANKS = {"noise": 64, "ranks": 2304}
OTHERS = {
    "bridge": b"[+%9.3f] Step Time : %.2fs GPU utilization: %.1fMODEL_TFLOP/s/GPU\n",
    "maxtext": b"completed step: %d, seconds: %.3f, TFLOP/s/device: %.3f, Tokens/s/device: %.3f,"
    b" total_weights: 12582912, loss: 10.565\n",
    "paxml": b"I0706 16:50:26.2 1401 local.py:41] Setting task status: step = %d, loss= %.6f, steps/sec %.10f\n",
    "nanotron": b"12/21 01:39:51 [INFO|DP=0|TP=0|host]: iteration: %d / 1500000 | consumed_tokens: 480B |"
    b" time_per_iteration_ms: %.2fK | tokens_per_sec: 182K | tokens_per_sec_per_gpu: %.0f | global_batch_size: 1.6M |"
    b" lm_loss: 2.04 | lr: 0.0003 | model_tflops_per_gpu: 15.4 | grad_norm: 0.41 | hd_total_memory_tb: 28T\n",
    "deepspeed": b"v100x16-1: steps: %d loss: %.4f iter time (s): %.3f samples/sec: 0.250\n",
    "nemo1": b"Epoch 0: :  47%%|####7     | %d/99999999 [06:19<07:13, v_num=gjbq, reduced_train_loss=%.2f,"
    b" global_step=5.000, consumed_samples=12288.0, train_step_timing in s=%.2f, val_loss=6.250]\n",
    "dllogger": b'DLLL {"timestamp": "1727486904.6", "type": "LOG", "step": %d, "data": {"reduced_train_loss": %.1f,'
    b' "train_backward_timing in s": 5.9e-05, "train_step_timing in s": %.13f, "epoch": 0}}\n',
}
"""Each takes a step number and then numbers from 10 to 20."""
SIZES = {"noise": 278e6, "ranks": 4e9, "steps": 200e6, "titan": 50e6, "nemo2": 50e6, "hf": 50e6, "bars": 50e6}
SIZES |= dict.fromkeys(OTHERS, 50e6)
KINDS = tuple(SIZES)

# {n}: label of srun, {r}: rank, {l}: rank on its node, {h}: host, {p}: process, {t}: clock, {a}, {b}: numbers, {x}: hex
CHATTER = (
    *("{n}: {h}:{p}:{b} [{l}] NCCL INFO Channel {c:02d}/0 : {r}[{l}] -> {q}[{l}] via P2P/CUMEM/read\n",) * 6,
    *("{n}: {h}:{p}:{b} [{l}] NCCL INFO Channel {c:02d}/0 : {r}[{l}] -> {q}[{l}] [send] via NET/IB/{l}/GDRDMA\n",) * 6,
    "{n}: {h}:{p}:{b} [{l}] NCCL INFO Trees [0] {q}/-1/-1->{r}->{q} [1] {q}/-1/-1->{r}->{c} [2] -1/-1/-1->{r}->{q}\n",
    "{n}: {h}:{p}:{b} [{l}] NCCL INFO Connected all rings, use ring PXN 0 GDR 1\n",
    "{n}: {h}:{p}:{b} [{l}] NCCL INFO 16 coll channels, 16 collnet channels, 0 nvls channels, 16 p2p channels\n",
    "{n}: {h}:{p}:{b} [{l}] NCCL INFO ncclCommInitRankConfig comm 0x{x} rank {r} nranks {m} cudaDev {l} busId {b}"
    " commId 0x{x} - Init COMPLETE\n",
    "{n}: /usr/local/lib/python3.12/dist-packages/torch/distributed/c10d_logger.py:81: UserWarning: barrier(): using"
    " the device under current context. You can specify `device_id` in `init_process_group` to mute this warning.\n",
    "{n}:   return func(*args, **kwargs)\n",
    "{n}: /opt/megatron-lm/megatron/core/models/gpt/gpt_layer_specs.py:{c}: UserWarning: The fp8 argument in"
    ' "get_gpt_layer_with_transformer_engine_spec" has been deprecated and will be removed soon. Please update.\n',
    "{n}: [rank{r}]:[W{t}.{b} ProcessGroupNCCL.cpp:5072] Guessing device ID based on global rank. This can cause a"
    " hang if rank to GPU mapping is heterogeneous. You can specify device_id in init_process_group()\n",
    "{n}: [DEBUG    | DotProductAttention]: Running with config={{'compute_capability': 'sm90', 'q_dtype': torch.bf16,"
    " 'qkv_layout': 'sbhd_sbhd_sbhd', 'batch_size': {c}, 'num_heads': 32, 'max_seqlen_q': {a}, 'window': (-1, 0)}}\n",
    "{n}: INFO:transformer_engine.pytorch:Selected backend = FusedAttention (sub-backend 1) for layer {c}\n",
    "{n}: INFO:megatron.core.datasets.gpt_dataset:\tLoad the shuffle index from {x}-GPTDataset-shuffle_index.npy\n",
    "{n}: INFO:megatron.core.datasets.indexed_dataset:> total number of sequences: {a}\n",
    "{n}: INFO:megatron.core.datasets.indexed_dataset:Load the _IndexReader from /data/c4/{c:03d}_text_document.idx\n",
    "{n}: WARNING:megatron.core.dist_checkpointing.strategies.torch:MCore's async save is deprecated and will be"
    " removed in the future releases. Please, use NVRx async solution by setting `async_strategy` to `nvrx`.\n",
    "{n}: INFO:megatron.core.dist_checkpointing.strategies.async_utils:rank: {r}, takes {f} to finish D2H\n",
    '{n}: INFO:httpx:HTTP Request: GET https://registry.example/api/models/tokenizer/{x} "HTTP/1.1 200 OK"\n',
    '{n}: 10.0.{c}.{l} - - [{t}] "POST /v1/metrics HTTP/1.1" 200 {b} "-" "python-requests/2.32"\n',
    "{n}: wandb: WARNING Step must only increase in log calls. Step {a} < {b}; dropping data of rank {r}.\n",
)
TIMERS = (
    "{n}: (min, max) time across ranks (ms):\n",
    "{n}:     forward-backward ...............................: ({f}, {f})\n",
    "{n}:     optimizer-copy-main-to-model-params ............: ({f}, {f})\n",
)
"""Only after the first step."""
ARGUMENTS = {
    **{"world_size": 0, "seq_length": 8192, "global_batch_size": 512, "micro_batch_size": 1, "num_layers": 32},
    **{"hidden_size": 4096, "ffn_hidden_size": 14336, "num_attention_heads": 32, "num_query_groups": 8},
    **{"group_query_attention": True, "swiglu": True, "bf16": True, "fp8": None, "train_iters": STEPS},
    **{"tensor_model_parallel_size": 2, "pipeline_model_parallel_size": 1, "padded_vocab_size": 128256},
}
OTHER_ARGUMENTS = 700
MEGATRON = (
    b"%d: [default7]: [2026-01-%02d %02d:%02d:%02d.%06d] iteration %8d/%8d | consumed samples: %12d |"
    b" elapsed time per iteration (ms): %.1f | throughput per GPU (TFLOP/s/GPU): %.1f | learning rate: %.6E |"
    b" global batch size: %5d | lm loss: %.6E | loss scale: 1.0 | grad norm: %.3f |"
    b" number of skipped iterations:   0 | number of nan iterations:   0 |\n"
)
TITAN = (
    b"[rank0]:[titan] 2026-01-%02d %02d:%02d:%02d,%03d - root - INFO - \x1b[31mstep: %2d  \x1b[32mloss: %8.5f"
    b"  \x1b[38;2;180;60;0mgrad_norm: %7.4f  \x1b[33mmemory: 29.11GiB(92.83%%)  \x1b[34mtps: %s"
    b"  \x1b[36mtflops: %.2f  \x1b[35mmfu: %.2f%%\x1b[39m\n"
)
NEMO_2 = (
    b"[default0]:Training epoch 0, iteration %d/%d | lr: %.3e | global_batch_size: 512 | global_step: %d |"
    b" reduced_train_loss: %.4g | train_step_timing in s: %.4g | TFLOPS_per_GPU: %.4g | consumed_samples: %d\n"
)
HF = (
    b"{'loss': '%.4g', 'grad_norm': '%.4g', 'learning_rate': '%.4g', 'epoch': '%.3f',"
    b" 'global_step/max_steps': '%d/%d', 'elapsed_time': '%s', 'memory(GiB)': '68.02'}\n"
)


def pages_of(templates: Sequence[str], ranks: int, chance: Random) -> list[bytes]:
    """Pages of what ranks print."""

    def line() -> str:
        rank, number = chance.randrange(ranks), chance.getrandbits
        return chance.choice(templates).format(
            n=rank,
            r=rank,
            l=rank % 8,
            q=(rank + 8) % ranks,
            m=ranks,
            h=f"gpu-{rank // 8:03d}",
            p=10_000 + number(15),
            t=f"01{number(3) + 10} 10:{number(5):02d}:{number(5):02d}",
            a=number(22),
            b=number(18),
            c=number(6),
            f=f"{number(20) / 1000:.2f}",
            x=f"{number(64):016x}",
        )

    return ["".join(line() for _ in range(PAGE_LINES)).encode() for _ in range(PAGES)]


def dump(ranks: int) -> bytes:
    """What rank 0 prints of its arguments."""
    said = {**ARGUMENTS, "world_size": ranks, **{f"some_other_argument_{n}": n for n in range(OTHER_ARGUMENTS)}}
    rows = [f"0: [default0]:  {name} {'.' * (47 - len(name))} {value}\n" for name, value in sorted(said.items())]
    return "".join((f"0: using world size: {ranks}\n", *rows)).encode()


def noise(ranks: int, size: float, chance: Random) -> Iterator[bytes]:
    """A few step lines in much chatter."""
    first, pages = pages_of(CHATTER, ranks, chance), pages_of((*CHATTER, *TIMERS), ranks, chance)
    head = dump(ranks)
    lines = list(megatron(ranks, STEPS, chance))
    room = size - len(head) - sum(map(len, lines))
    yield head
    before = int(room * BEFORE_FIRST / mean(map(len, first)))
    for start in range(0, before, PAGES):
        yield b"".join(chance.choices(first, k=min(PAGES, before - start)))
    done, between = 0, room * (1 - BEFORE_FIRST) / mean(map(len, pages))
    for number, line in enumerate(lines, 1):
        upto = int(between * number / STEPS)
        yield b"".join(chance.choices(pages, k=upto - done))
        yield line
        done = upto


def megatron(ranks: int, count: int, chance: Random) -> Iterator[bytes]:
    """Step lines of the last rank."""
    numbers = chance.getrandbits
    for step in range(1, count + 1):
        day, hour, minute, second = 1 + step // 86400 % 28, step // 3600 % 24, step // 60 % 60, step % 60
        bits = numbers(30)
        slow = (bits & 1023) / 10
        yield MEGATRON % (
            *(ranks - 1, day, hour, minute, second, bits % 1_000_000, step, count, step * 512),
            *(3200 + slow, 340 - slow / 10, 3e-4 / step, 512, 2 + 10 / step, (bits >> 10) / 2e6),
        )


def titan(count: int, chance: Random) -> Iterator[bytes]:
    """torchtitan."""
    for step in range(1, count + 1):
        bits = chance.getrandbits(30)
        clock = 1 + step // 86400 % 28, step // 3600 % 24, step // 60 % 60, step % 60, bits % 1000
        rate = f"{71000 + (bits & 1023):,}".encode()
        yield TITAN % (
            *clock,
            step,
            2 + 9 / step,
            (bits >> 10) / 1e6,
            rate,
            48 + bits % 100 / 100,
            15 + bits % 100 / 100,
        )


def nemo2(count: int, chance: Random) -> Iterator[bytes]:
    """NeMo 2."""
    for step in range(count):
        bits = chance.getrandbits(30)
        time_s = 12 + (bits & 1023) / 1000
        yield NEMO_2 % (step, count - 1, 3e-4 / (step + 1), step, 2 + 9 / (step + 1), time_s, 8000 / time_s, 512 * step)


def hf(count: int, chance: Random) -> Iterator[bytes]:
    """The Trainer under ms-swift, whose dictionaries hold a clock."""
    clock = 0
    for step in range(1, count + 1):
        bits = chance.getrandbits(30)
        clock += 17 + (bits & 1)
        told = f"{clock // 3600}h {clock // 60 % 60}m {clock % 60}s".encode()
        yield HF % (2 + 9 / step, (bits >> 10) / 1e6, 1e-5 / step, 3 * step / count, step, count, told)


def bars(count: int, chance: Random) -> Iterator[bytes]:
    """The Trainer, whose bars are drawn over each other."""
    for step in range(1, count + 1):
        clock = b"%d:%02d:%02d" % (step // 3600, step // 60 % 60, step % 60)
        values = 2 + 9 / step, chance.getrandbits(20) / 1e6, 1e-5 / step, 3 * step / count
        yield b"\r  6%%|6         | %d/%d [%s<9:41:07,  1.02s/it]\n" % (step, count, clock)
        yield b"{'loss': %.4f, 'grad_norm': %.6f, 'learning_rate': %.4g, 'epoch': %.4f}\n" % values


def other(kind: str, count: int, chance: Random) -> Iterator[bytes]:
    """One of OTHERS."""
    numbers = OTHERS[kind].replace(b"%%", b"").count(b"%") - 1
    for step in range(1, count + 1):
        yield OTHERS[kind] % (step, *(10 + 10 * chance.random() for _ in range(numbers)))


def log(kind: str, size: float, seed: int) -> Iterator[bytes]:
    """About ``size`` bytes of ``kind``, in pieces."""
    chance = Random(seed)
    if kind in RANKS:
        return noise(RANKS[kind], size, chance)
    made = {name: partial(other, name) for name in OTHERS}
    made |= {
        "steps": lambda count, chance: megatron(1, count, chance),
        "titan": titan,
        "nemo2": nemo2,
        "hf": hf,
        "bars": bars,
    }
    lines = made[kind]
    length = mean(map(len, lines(1000, Random(seed))))
    return lines(round(size / length), chance)


def write(kind: str, path: Path, size: float, seed: int) -> None:
    """The log as a file."""
    with path.open("wb", buffering=1 << 20) as file:
        file.writelines(log(kind, size, seed))


def main() -> None:
    """Write the log that the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--bytes", type=float, help="about so many, e.g. 4e9")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    write(options.kind, options.output, options.bytes or SIZES[options.kind], options.seed)


if __name__ == "__main__":
    main()
