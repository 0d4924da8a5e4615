"""A verb, and a format of reports."""

import click


@click.command()
@click.argument("name")
def greet(name: str) -> None:
    """Greet somebody."""
    click.echo(f"hello, {name}")
