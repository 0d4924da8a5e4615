"""Verbs that look things up: list, show, completion."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from benchrun import api, extensions
from benchrun.errors import UserError
from benchrun.vocabulary import MOST_GPUS, Exit

from .complete import recipe_names
from .options import (
    all_of,
    check_published,
    json_option,
    point_options,
    print_json,
    print_views,
    published_options,
)

if TYPE_CHECKING:
    from benchrun.api import Request, RunSpec

INVENTORIES = ("suites", "studies", "plans", "clusters", "gpus", "frameworks")
SHELLS = ("bash", "zsh", "fish")

inventory_options = all_of(
    *(
        click.option(f"--{name}", is_flag=True, help=f"List the {name} of this version.")
        for name in INVENTORIES
    )
)


@click.command("list")
@click.argument("recipes", nargs=-1, shell_complete=recipe_names)
@click.option("--gpu", help="Only points for this GPU.")
@click.option("--cluster", metavar="NAME|FILE", help="Only points for the GPU of this cluster.")
@click.option("--all", "every", is_flag=True, help="Every point in a line of its own.")
@published_options
@click.option(
    "--num-gpus",
    type=click.IntRange(1, MOST_GPUS),
    help="With --published: only points of so many GPUs.",
)
@inventory_options
@json_option
def list(
    recipes: tuple[str, ...],
    gpu: str | None,
    cluster: str | None,
    every: bool,
    published: bool,
    max_gpus: int | None,
    num_gpus: int | None,
    as_json: bool,
    **inventories: bool,
) -> int:
    """List recipes, one a line; if RECIPES are named, their layouts. --json lists every
    point.

    GPUS is the range of the number of GPUs, PUBLISHED the number of published results
    for these points. DERIVED names the GPU from which a layout was borrowed, because
    this GPU has none of its own.
    """
    from benchrun.show import listing
    from benchrun.show.table import LINE, fitted

    alone = {f"--{name}": wanted for name, wanted in inventories.items()}
    if num_gpus and not published:
        raise UserError("--num-gpus goes with --published", hint="benchrun list --help")
    if check_published(published, max_gpus, num_gpus, alone | {"--all": every}):
        show = extensions.capability("studies.published", "list_published")
        request = api.Request("", gpu=gpu, cluster=cluster, num_gpus=num_gpus)
        return int(show(request, max_gpus, recipes, as_json=as_json))
    if chosen := [name for name, wanted in inventories.items() if wanted]:
        _print_inventories(chosen, as_json)
        return Exit.OK
    if cluster and not gpu:
        gpu = api.gpu_of(cluster)
    if as_json:
        print_json(api.list_points(recipes, gpu, cluster))
        return Exit.OK
    if every:
        table = listing.points_table(api.list_points(recipes, gpu, cluster))
    elif recipes:
        table = listing.layouts_table(api.list_layouts(recipes, gpu, cluster))
    else:
        table = listing.recipes_table(api.list_recipes((), gpu, cluster))
    click.echo(fitted(table, None if every else LINE), nl=False)
    return Exit.OK


def _print_inventories(names: Sequence[str], as_json: bool) -> None:
    """Print inventories as one JSON document, or a single one as a table."""
    from benchrun.show.listing import WIDE, inventory_table
    from benchrun.show.table import LINE, fitted

    if len(names) > 1 and not as_json:
        raise UserError("one inventory at a time", hint=f"benchrun list --{names[0]}")
    rows = []
    for name in names:
        rows += api.INVENTORIES[name]()
    if as_json:
        print_json(rows)
    else:
        click.echo(fitted(inventory_table(rows, WIDE.get(names[0], ())), LINE), nl=False)


@click.command("show")
@point_options
@click.option("--all", "every", is_flag=True, help="Everything, as YAML.")
@json_option
def show(as_json: bool, every: bool, **point: Any) -> int:
    """Show a point: model, layout, memory per GPU, published numbers; or the runs of a
    suite or study.

    --all and --json have the whole specification, FLOPs, the arithmetic of the layout,
    all references. Runs of a study that break a rule are shown with the reason.
    """
    request = api.Request(**point)
    if api.is_suite(request.recipe):
        return _show_suite(request, as_json)
    spec = api.resolve_shown(request)
    document = api.describe(spec)
    if as_json:
        print_json(document)
    elif every:
        import yaml

        click.echo(
            yaml.safe_dump(document, sort_keys=False, width=110, default_flow_style=False).rstrip()
        )
    else:
        from benchrun.show.point import point_view

        print_views(point_view(spec, document, request))
    return Exit.OK


def _show_suite(request: "Request", as_json: bool) -> Exit:
    """Print the runs of a suite or study. UserError if none is legal."""
    points, repeats = api.resolve_each(request)
    if all(isinstance(spec, UserError) for _, spec in points):
        api.resolve(request)  # raises the first one's error
    each_run = []
    for point, spec in points:
        for _ in range(repeats):
            each_run.append((point.settings, spec))
    print_runs(each_run, as_json=as_json)
    return Exit.OK


def print_runs(
    runs: "Sequence[tuple[Mapping[str, Any], RunSpec | UserError]]", *, as_json: bool = False
) -> None:
    """Print the runs of a suite or study, each with the factors that chose it."""
    from benchrun.show import listing
    from benchrun.show.point import suite_rows
    from benchrun.show.table import LINE, fitted

    rows = suite_rows(runs)
    if as_json:
        print_json(rows)
        return
    left_out = () if any(row["refused"] for row in rows) else ("refused",)
    table = listing.inventory_table(rows, left_out)
    spare = [title for title in table.titles[:4:-1] if title != "REFUSED"]
    click.echo(fitted(table, LINE, spare), nl=False)


@click.command("completion")
@click.argument("shell", type=click.Choice(SHELLS), default="bash")
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the script that completes benchrun's verbs, options, recipes, GPUs and runs
    in your shell.

    For bash: eval "$(benchrun completion bash)" in ~/.bashrc; for zsh the same in
    ~/.zshrc. For fish: benchrun completion fish >
    ~/.config/fish/completions/benchrun.fish
    """
    from click.shell_completion import get_completion_class

    maker = get_completion_class(shell)
    assert maker is not None  # click has a class for each of SHELLS
    group = context.find_root().command
    name = context.find_root().info_name or "benchrun"
    shell_maker = maker(group, {}, name, f"_{name.upper().replace('-', '_')}_COMPLETE")
    click.echo(shell_maker.source_template % shell_maker.source_vars())
