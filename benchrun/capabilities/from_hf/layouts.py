"""Layouts that fit: for each GPU and number of GPUs the one that is predicted to be fastest."""

from collections.abc import Iterator
from dataclasses import dataclass

from benchrun.capabilities.predict.prediction import Prediction, predict
from benchrun.capabilities.predict.runs import workload_of_run
from benchrun.capabilities.studies.layouts import legal
from benchrun.errors import UserError
from benchrun.frameworks.registry import framework
from benchrun.memory import warning
from benchrun.recipes.catalogue import Point, RecipeFile
from benchrun.recipes.resolve import drafted, resolve_point
from benchrun.runspec.spec import TrainingSpec
from benchrun.runspec.training import Recompute

GPUS = ("H100", "H200", "B200")
"""GPUs with points; others borrow those of the closest one that has not more memory."""
SIZES = (1, 8, 64, 256, 1024, 2048)
"""Numbers of GPUs; a layout holds for more, with more data-parallel ranks."""
SIZES_OF_A_GPU = 3
MOST_STAGES = 16
MOST_EP = 64
"""Ranks of expert parallelism."""
FULL = Recompute(granularity="full", method="uniform", num_layers=1)


@dataclass(frozen=True)
class Fit:
    """One layout that fits."""

    spec: TrainingSpec
    prediction: Prediction

    @property
    def stated(self) -> dict[str, object]:
        """The keys of its point in a recipe."""
        layout = self.spec.layout.model_dump(exclude_defaults=True)
        keys: dict[str, object] = {"layout": layout, "mbs": self.spec.mbs}
        recompute = self.spec.training.recompute
        if recompute.granularity != "none":
            keys["training"] = {"recompute": recompute.model_dump(exclude_defaults=True)}
        return keys


def fits(file: RecipeFile, listed: list[Point]) -> list[Fit]:
    """The best layout of each point that fits, for each GPU and precision the smallest
    numbers of GPUs first. UserError with the reason if none does.
    """
    found: list[Fit] = []
    for gpu in GPUS:
        of_gpu: list[Fit] = []
        for num_gpus in SIZES:
            if len({fit.spec.num_gpus for fit in of_gpu}) == SIZES_OF_A_GPU:
                break
            points = [each for each in listed if (each.gpu, each.num_gpus) == (gpu, num_gpus)]
            of_gpu += _of_each_precision(file, points)
        found += of_gpu
    if not found:
        resolve_point(file, listed[-1], to_launch=False)
        raise UserError(f"no layout of {file.name} fits on {SIZES[-1]} GPUs")
    return found


def _of_each_precision(file: RecipeFile, points: list[Point]) -> Iterator[Fit]:
    """The best layout of the first precision, and for the others too where it fits."""
    best: Fit | None = None
    for point in points:
        spec, _ = drafted(file, point, to_launch=False)
        assert isinstance(spec, TrainingSpec)  # the recipe is one of a training
        like = best and _as_in(spec, best.spec)
        fit = like or _best(spec)
        if fit:
            best = best or fit
            yield fit


def _as_in(spec: TrainingSpec, other: TrainingSpec) -> Fit | None:
    """``spec`` in the layout of ``other``; None if it does not fit."""
    training = spec.training.model_copy(update={"recompute": other.training.recompute})
    sizes = {"layout": other.layout, "mbs": other.mbs}
    same = spec.model_copy(update={"training": training}).resized(**sizes)
    varied = {name: [getattr(other.layout, name)] for name in ("tp", "pp", "vp", "cp", "ep")}
    found = [*_fitting(same, {**varied, "mbs": [other.mbs]})]
    return found[0] if found else None


def _best(spec: TrainingSpec) -> Fit | None:
    """The fastest layout that fits, without recomputation if there is one."""
    for recompute in (spec.training.recompute, FULL):
        training = spec.training.model_copy(update={"recompute": recompute})
        base = spec.model_copy(update={"training": training})
        found = [*_fitting(base, _degrees(base))]
        for stages in _uneven(base):
            layout = base.layout.model_copy(update={"pp": stages.count("|") + 1, "stages": stages})
            degrees = _degrees(base) | {"pp": [layout.pp]}
            found += _fitting(base.resized(layout=layout), degrees)
        if found:
            return min(found, key=lambda fit: fit.prediction.median)
    return None


def _fitting(base: TrainingSpec, degrees: dict[str, list[int]]) -> Iterator[Fit]:
    """The layouts of these degrees that fit with room to spare."""
    for spec in legal(base, degrees):
        if warning(spec) is None:
            yield Fit(spec, predict(workload_of_run(spec)))


def _degrees(spec: TrainingSpec) -> dict[str, list[int]]:
    """The degrees to try: powers of 2, whole layers on each stage, tensor parallelism
    within a node."""
    powers = [2**power for power in range(8) if 2**power <= spec.num_gpus]
    moe = spec.model.moe
    ep = [1]
    if moe:
        ep = [size for size in powers if size <= MOST_EP and moe.num_experts % size == 0]
    layers = spec.model.num_layers
    return {
        "tp": [size for size in powers if size <= min(8, spec.cluster.gpus_per_node)],
        "pp": [size for size in powers if size <= MOST_STAGES and layers % size == 0],
        "vp": [1],
        "cp": [1],
        "ep": ep,
        "mbs": [1, 2, 4],
    }


def _uneven(spec: TrainingSpec) -> Iterator[str]:
    """Layers over stages where their number is no multiple: the last stages, which have
    the output layer, get one less."""
    model = spec.model
    if model.mamba or not framework(spec.framework).stages:
        return
    for size in (2, 4, 8, MOST_STAGES):
        each, more = divmod(model.num_layers, size)
        if more and each and size <= spec.num_gpus:
            stages = ["t" * (each + (number < more)) for number in range(size)]
            yield f"E{'|'.join(stages)}{'m' * model.mtp_layers}L"
