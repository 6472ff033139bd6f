"""Progress of a solver: a bar on a terminal if rich is installed, lines of text otherwise."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from hesse.solvers.result import Step

EVERY = 10
"""Without a bar, every so many steps are a line."""

Report = Callable[[Step], None]


@contextmanager
def shown(title: str, steps: int, wanted: bool | None) -> Iterator[Report]:
    """A function to call after each step. None: shown if there is a terminal."""
    if wanted is False or (wanted is None and not sys.stderr.isatty()):
        yield lambda step: None
    elif importlib.util.find_spec("rich") is None:
        yield lambda step: _line(title, step)
    else:
        with _bar(title, steps) as report:
            yield report


def _line(title: str, step: Step) -> None:
    if step.number % EVERY == 0:
        print(f"{title}: step {step.number}, {_numbers(step)}", file=sys.stderr)


def _numbers(step: Step) -> str:
    return f"value {step.value:.6g}, gradient {step.gradient_norm:.2e}"


@contextmanager
def _bar(title: str, steps: int) -> Iterator[Report]:
    console = importlib.import_module("rich.console").Console(stderr=True)
    rich = importlib.import_module("rich.progress")
    columns = (
        rich.TextColumn("{task.description}"),
        rich.BarColumn(),
        rich.MofNCompleteColumn(),
        rich.TextColumn("{task.fields[numbers]}"),
        rich.TimeElapsedColumn(),
    )
    with rich.Progress(*columns, console=console) as progress:
        task = progress.add_task(title, total=steps, numbers="")
        yield lambda step: progress.update(task, completed=step.number, numbers=_numbers(step))
