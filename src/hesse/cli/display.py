"""What is printed: colours on a terminal if rich is installed, plain text otherwise."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Sequence
from typing import TextIO

Row = tuple[str, str]


def rich_is_wanted(stream: TextIO) -> bool:
    """Whether to print with colours: on a terminal, or if FORCE_COLOR says so (rich is slow to import)."""
    terminal = stream.isatty() or bool(os.environ.get("FORCE_COLOR"))
    return terminal and not os.environ.get("NO_COLOR") and importlib.util.find_spec("rich") is not None


def display(title: str, rows: Sequence[Row], more: Sequence[Row] = ()) -> None:
    """The answer itself, set apart, above what is to be said about it; empty rows are left out."""
    rows = [row for row in rows if row[1]]
    more = [row for row in more if row[1]]
    if rich_is_wanted(sys.stdout):
        _rich_display(title, rows, more)
        return
    width = max(len(label) for label, _ in [*rows, *more])
    for label, text in [*rows, *more]:
        first, *others = text.splitlines()
        print(f"{label:<{width}}  {first}")
        for line in others:
            print(f"{'':<{width}}  {line}")


def error_display(message: str) -> None:
    """An error; the lines after the first show the formula with carets."""
    if rich_is_wanted(sys.stderr):
        _rich_error(message)
    else:
        print(f"error: {message}", file=sys.stderr)


def _rich_display(title: str, rows: Sequence[Row], more: Sequence[Row]) -> None:
    from rich.console import Console  # noqa: PLC0415
    from rich.panel import Panel  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    console = Console()

    def grid(rows: Sequence[Row], style: str) -> Table:
        table = Table.grid(padding=(0, 2))
        table.add_column(style="dim", no_wrap=True)
        table.add_column(style=style, overflow="fold")
        for label, text in rows:
            table.add_row(label, Text(text))
        return table

    console.print(
        Panel(grid(rows, "bold"), title=title, title_align="left", border_style="cyan", expand=False)
    )
    if more:
        console.print(grid([(f" {label}", text) for label, text in more], ""))


def _rich_error(message: str) -> None:
    from rich.console import Console  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    first, *picture = message.splitlines()
    text = Text("error: ", style="bold red").append(first, style="default not bold")
    for line in picture:
        carets = set(line.strip()) == {"^"}
        text.append(f"\n{line}", style="bold red" if carets else "bold default")
    Console(stderr=True).print(text, soft_wrap=True)
