"""Choice of the published number that a run is compared with.

Of the rows whose must-agree conditions agree, those of the run's own framework count,
else those of its family (families.csv), else all. Of these the ones with the run's own
layout count, those first that state most of it; then the ones with its image or
version, FP8 recipe and variant, if a run states them; then those without a flag. Of
what is left the fastest is the reference.
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple

from benchrun.errors import UserError
from benchrun.measure.registry import METRICS
from benchrun.model import Frozen
from benchrun.model.flops import flops_per_token
from benchrun.runspec.image_names import nemo_release
from benchrun.vocabulary import DEGREES

from .conditions import SOFT, Conditions
from .references import (
    Reference,
    families,
    load_references,
    matching,
    same_work,
    shipped_recipe,
)

CONVENTIONS = ("full", "causal")
"""Conventions under which a TFLOPS or an MFU is comparable: we count by them too."""
NOT_IN_FORCE = frozenset({"misprint", "revised"})
"""Flags of numbers that their own source contradicts: in the same row, or later for the
same framework and image.
"""


class Choice(Frozen):
    """Reason why this row was chosen as the reference."""

    framework: Literal["same", "family", "other"]
    """The reference's framework relative to the run's."""
    same_layout: bool
    """The run has the layout that the reference states."""
    same_version: bool
    """The run has the reference's container image or version of the framework."""
    candidates: int
    """Number of rows with the conditions that must agree."""
    faster: int = 0
    """Number of rows of the same kind, layout and version that are faster and count
    less: flagged, of another variant or FP8 recipe, or stating less of the layout.
    """
    by_name: bool = False
    """The user named the reference."""

    @property
    def sentence(self) -> str:
        """The choice in words."""
        if self.by_name:
            return "named by --reference"
        if self.candidates == 1:
            return "the only number under these conditions"
        framework = {
            "same": "the same framework",
            "family": "the same family of frameworks",
            "other": "any framework",
        }
        layout = "the run's layout" if self.same_layout else "any layout"
        version = " and version" if self.same_version else ""
        basis = f"{framework[self.framework]} with {layout}{version}"
        if self.faster:
            less = "flagged, belong to another variant or FP8 recipe, or state less of the layout"
            chosen = f"chosen from {self.candidates} numbers that fit: {basis}"
            return f"{chosen}; faster numbers were not used because they are {less}: {self.faster}"
        return f"the fastest of {basis}, among {self.candidates} numbers that fit"


def usable(entry: Reference) -> bool:
    """Whether a run can be compared with ``entry`` at all."""
    metric, in_force = METRICS[entry.metric], not NOT_IN_FORCE & {*entry.flags}
    return (
        in_force
        and metric.comparable
        and (not metric.counts_flops or entry.convention in CONVENTIONS)
    )


def references_for(wanted: str | None, own: Conditions) -> tuple[Reference, ...]:
    """Every published number, or the one with id ``wanted``. UserError if ``own``
    cannot be compared with it.
    """
    entries = load_references()
    if wanted is None:
        return entries
    entry = next((entry for entry in entries if entry.id == wanted), None)
    if entry is None:
        names = [entry.id for entry in entries if entry.key.recipe == wanted.partition(":")[0]]
        hint = f"{names[0]} to {names[-1]}; " if names else ""
        hint += "benchrun show lists the references of a point with their ids"
        raise UserError(f"no reference is called '{wanted}'", hint=hint)
    if not usable(entry):
        why = " ".join(entry.flags) or f"its {entry.unit} follow another definition"
        raise UserError(
            f"{wanted} cannot be compared with a run: {why}", hint="see results/reference/README.md"
        )
    if entry.key.gpu != own.gpu or not same_work(entry.key, own):
        what = f"{wanted} is a number for {entry.key.recipe} on {entry.key.gpu}"
        raise UserError(f"{what}; this run is {own.recipe} on {own.gpu}")
    return (entry,)


class _Fit(NamedTuple):
    """Fit of an entry to a run; of several the largest is the reference."""

    kinship: int
    """2 for the same framework, 1 for one of the same family, 0 for another."""
    layout: int
    """Degree to which our layout is published: 0 if a degree or the micro-batch
    differs, or none is stated by both.
    """
    same_version: bool
    same_release: bool
    same_fp8_recipe: bool
    same_variant: bool
    flawless: bool
    rate: float
    date: str

    @property
    def kind(self) -> tuple[int, bool, bool]:
        """Kinship, whether the layout is the run's, and whether the version is: what
        `Choice.sentence` names.
        """
        return self.kinship, self.layout > 0, self.same_version or self.same_release


def choose(entries: Sequence[Reference], own: Conditions) -> Reference | None:
    """The best of the usable ``entries``, which all agree with ``own`` on what must
    agree; None if none is usable.

    Of equally fast ones the newest, and of these the last in its file.
    """
    candidates = list(filter(usable, entries))
    return max(reversed(candidates), key=lambda entry: _fit(entry, own), default=None)


def of_point(own: Conditions, references: Sequence[Reference]) -> Reference | None:
    """The number that was measured in the framework, the layout and with the options of
    ``own``; None if there is none.
    """
    entries = matching(own, references)
    best = choose(entries, own)
    if best is None or not rate(best) or best.key.options not in (None, own.options):
        return None
    found = choice(best, entries, own)
    states_no_layout = best.key.tp is None
    if found.framework == "same" and (found.same_layout or states_no_layout):
        return best
    return None


def choice(
    chosen: Reference, entries: Sequence[Reference], own: Conditions, *, by_name: bool = False
) -> Choice:
    """Reason why ``chosen`` is the one among ``entries``."""
    best, fits = _fit(chosen, own), [_fit(entry, own) for entry in entries if usable(entry)]
    kinship, same_layout, same_version = best.kind
    return Choice(
        framework=("other", "family", "same")[kinship],
        same_layout=same_layout,
        same_version=same_version,
        candidates=len(fits),
        faster=sum(fit.rate > best.rate and fit.kind == best.kind for fit in fits),
        by_name=by_name,
    )


def _fit(entry: Reference, own: Conditions) -> _Fit:
    published = entry.key
    pairs = {key: (getattr(published, key), getattr(own, key)) for key in SOFT}
    same = set()
    for key, (published_value, value) in pairs.items():
        if value is not None and value == published_value:
            same.add(key)
    stated = {key: pairs[key][0] for key in ("mbs", *DEGREES) if None not in pairs[key]}
    family = families().get(published.framework or "")
    relatives = families().get(own.framework or "")
    one, other = (
        nemo_release(each.image) or nemo_release(each.framework_version)
        for each in (published, own)
    )
    return _Fit(
        kinship=2 if "framework" in same else int(family is not None and family == relatives),
        layout=1 + sum(size > 1 for key, size in stated.items() if key != "mbs")
        if stated and same >= {*stated}
        else 0,
        same_version=not same.isdisjoint({"image", "framework_version"}),
        same_release=other is not None and one == other,
        same_fp8_recipe="fp8_recipe" in same,
        same_variant=published.variant == own.variant,
        # Proxy is no flaw here: only proxies match a proxy.
        flawless=not set(entry.flags) - {"proxy"},
        rate=rate(entry),
        date=entry.source.date,
    )


def rate(entry: Reference) -> float:
    """Tokens/s/GPU of a usable entry, stated or derived; 0 if it counts the FLOPs of an
    unknown model.
    """
    recipe, seq_length = shipped_recipe(entry.key.recipe), entry.key.seq_length
    if not METRICS[entry.metric].counts_flops:
        return entry.tokens_per_s_per_gpu
    if recipe is None or not seq_length:
        return 0.0
    ran = recipe.model.model_copy(
        update={"num_layers": entry.key.num_layers or recipe.model.num_layers}
    )
    flops = flops_per_token(ran, seq_length, task=entry.key.task)  # type: ignore[arg-type]
    share = (entry.peak_tflops or 0.0) / 100 if entry.metric == "mfu_percent" else 1.0
    counted: float = getattr(flops, entry.convention or "")
    return 1e12 * entry.value * share / counted
