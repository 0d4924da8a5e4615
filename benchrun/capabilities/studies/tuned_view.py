"""The search for a layout as text."""

from benchrun.show.table import Table, plain

from .tuned import Tuned, TunedLayout

SHOWN = 20
"""Layouts of the table: thousands may be legal with experts."""

TITLES = ("layout", "predicted s", "low", "high", "expected s", "measured s", "steps")


def tuned_page(result: Tuned, price: float | None = None) -> str:
    """The first layouts, the fastest measured first and then by what is expected; then
    the best one, and before the first job what the search takes.
    """
    ordered = sorted(
        result.layouts,
        key=lambda each: (each.measured_s is None, each.measured_s or each.expected_s),
    )
    table = Table(TITLES, list(map(_row, ordered[:SHOWN])), missing="-")
    if not any(each.steps for each in ordered):
        table = table.only([0, 1, 2, 3])
    text = plain(table)
    if len(ordered) > SHOWN:
        text += f"and {len(ordered) - SHOWN} more: --json has all\n"
    return f"{text}\n{_sentence(result)}\n{_cost(result, price)}"


def _cost(result: Tuned, price: float | None) -> str:
    """What the whole search takes; empty once it is over."""
    if result.over:
        return ""
    search = result.foreseen
    costs = []
    for hours in (search.gpu_hours, search.most_gpu_hours):
        costs.append(f"{hours:,.1f} GPU-hours" + (f", cost {hours * price:,.0f}" if price else ""))
    return (
        f"the search: {search.jobs} jobs and {costs[0]} if predictions hold; at most {costs[1]}\n"
    )


def _row(each: TunedLayout) -> list[object]:
    times = (each.predicted_s, each.low_s, each.high_s, each.expected_s)
    return [each.layout, *times, each.measured_s, each.steps]


def _sentence(result: Tuned) -> str:
    tried = sum(each.steps > 0 for each in result.layouts)
    share = 100 * result.device_s / result.exhaustive_device_s
    head = f"{tried} of {len(result.layouts)} layouts tried, with {share:.0f} % of the device time of trying all"
    one = result.best or result.layouts[0]
    sets = " ".join(f"--set {each}" for each in one.overrides)
    if result.best is None:
        return f"{head}\npredicted to be the fastest: {one.layout}: {sets}"
    state = "best" if result.over else "best so far"
    return f"{head}\n{state}: {one.layout}, {one.measured_s:.4g} s a step: {sets}"
