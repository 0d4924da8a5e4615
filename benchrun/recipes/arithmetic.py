"""The arithmetic of a layout in words: how GPUs, batch, layers and widths are divided."""

from collections.abc import Iterator

from benchrun.runspec.spec import TrainingSpec


def arithmetic(spec: TrainingSpec) -> list[str]:
    """One line for each division of the model, the batch and the GPUs, with its
    numbers.
    """
    return [*_ranks(spec), *_layers(spec), *_widths(spec)]


def _ranks(spec: TrainingSpec) -> Iterator[str]:
    layout = spec.layout
    per_node = spec.cluster.gpus_per_node
    nodes = f"{spec.num_nodes} node{'s' if spec.num_nodes > 1 else ''} of {min(per_node, spec.num_gpus)}"
    gpus = f"{spec.num_gpus} GPU{'s' if spec.num_gpus > 1 else ''}"
    yield f"{gpus} on {nodes} = tp {layout.tp} * pp {layout.pp} * cp {layout.cp} * dp {spec.dp}"
    batch = f"mbs {spec.mbs} * dp {spec.dp} * {spec.num_microbatches} micro-batches"
    yield f"{spec.gbs} sequences per step = {batch}; {spec.tokens_per_step:,} tokens"
    if layout.fsdp > 1:
        ranks = spec.dp * layout.cp
        yield f"{ranks} data-parallel ranks = fsdp {layout.fsdp} * {ranks // layout.fsdp} replicas"
    if spec.model.moe:
        block = layout.ep * layout.etp * layout.pp
        cut = f"ep {layout.ep} * etp {layout.etp} * pp {layout.pp}"
        yield f"{gpus} = {cut} * {spec.num_gpus // block} replicas of the experts"


def _layers(spec: TrainingSpec) -> Iterator[str]:
    layout = spec.layout
    layers = spec.model.num_layers
    if layout.pp == 1:
        return
    if layout.stages:
        most = max(stage.count("t") for stage in layout.stage_list)
        yield f"{layers} layers = {len(layout.stage_list)} stages of at most {most}"
    else:
        ends = 2 if layout.account_for_embedding_and_loss else 0
        stages = f"pp {layout.pp} * " + (f"vp {layout.vp} * " if layout.vp > 1 else "")
        each = (layers + ends) // (layout.pp * layout.vp)
        what = f"{layers} layers + embedding + output layer" if ends else f"{layers} layers"
        yield f"{what} = {stages}{each} per {'virtual ' if layout.vp > 1 else ''}stage"
    idle = layout.pp - 1
    busy = spec.num_microbatches * layout.vp
    turns = f"{idle} of {idle} + {spec.num_microbatches} * {layout.vp}"
    yield f"pipeline idle {100 * idle / (idle + busy):.1f} % of a step: {turns}"


def _widths(spec: TrainingSpec) -> Iterator[str]:
    model = spec.model
    layout = spec.layout
    if layout.tp > 1:
        heads = model.num_attention_heads
        groups = model.num_query_groups
        of_groups = ""
        if not model.mla:
            of_groups = f" and {groups // layout.tp} of {groups} groups"
        yield f"a tp rank has {heads // layout.tp} of {heads} heads{of_groups}"
    if layout.cp > 1 or layout.sequence_parallel:
        cut = f"cp {layout.cp}" + (
            f" * tp {layout.tp} (sequence parallel)" if layout.sequence_parallel else ""
        )
        pieces = layout.cp * (layout.tp if layout.sequence_parallel else 1)
        yield f"{spec.seq_length} tokens = {cut} * {spec.seq_length // pieces}"
    if model.moe:
        yield f"{model.moe.num_experts} experts = ep {layout.ep} * {model.moe.num_experts // layout.ep} per rank"
