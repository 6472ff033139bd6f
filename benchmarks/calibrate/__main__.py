"""`python -m benchmarks.calibrate [--target numpy|torch|jax] [--only TEXT]`: how far records are off here.

Each measurement is named like the field that it measures, gets the record as it is shipped, and returns what
the field should be on this machine. Thresholds are found by trying sizes, so they are right to a factor of
two at best; "nowhere" is no size that was tried. Where two ways were timed at several sizes, the column of
times says what the shipped value takes on their average, relative to the best one. By default all libraries
that are installed are measured.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import os
import sys
from collections.abc import Sequence
from dataclasses import fields

from benchmarks.calibrate.measuring import Found, Target
from benchmarks.texts import columns, ratio_text
from hesse.backends.target import BACKENDS

FAR = 4.0
"""A shipped value that is off by more than this factor is marked,"""
SLOW = 1.05
"""if it is known to take so much longer than the best one, or not known."""


def target_of(name: str) -> Target:
    """What is measured of a back end."""
    found: Target = importlib.import_module(f"benchmarks.calibrate.{name}_fields").TARGET
    return found


def number_text(value: float) -> str:
    """Whole numbers as they are, others to four digits."""
    return f"{int(value):,}" if float(value).is_integer() else f"{value:,.4g}"


def line(name: str, target: Target) -> list[str]:
    """A row of the table."""
    value = getattr(target.machine, name)
    shown = number_text(value)
    if name in target.choices:
        return [name, shown, "", "", "", f"a choice: {target.choices[name]}"]
    if name in target.needs:
        return [name, shown, "", "", "", f"needs {target.needs[name]}"]
    measured = target.measurements[name](target.machine)
    found, taken = measured if isinstance(measured, Found) else (measured, None)
    time = "" if taken is None else ratio_text(taken)
    is_slow = taken is None or taken > SLOW
    if found is None:
        return [name, shown, "nowhere", "", time, "OFF" * (taken is not None and is_slow)]
    ratio = found / value
    is_far = not 1 / FAR <= ratio <= FAR
    return [name, shown, number_text(found), ratio_text(ratio), time, "OFF" * (is_far and is_slow)]


def table(name: str, only: str) -> str:
    """What is measured of a back end, as text."""
    target, lines = target_of(name), []
    for field in fields(target.machine):
        if only in field.name:
            lines.append(line(field.name, target))
            print(f"measured: {name} {field.name}", file=sys.stderr, flush=True)
    return columns((name, "shipped", "here", "here/shipped", "time", ""), lines) if lines else ""


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.calibrate", description=__doc__)
    installed = [name for name in BACKENDS if importlib.util.find_spec(name) is not None]
    parser.add_argument("--target", choices=BACKENDS, help="the back end whose record is measured")
    parser.add_argument("--only", default="", help="fields whose name contains this text")
    options = parser.parse_args(arguments)
    for name in [options.target] if options.target else installed:
        if found := table(name, options.only):
            print(found, end="\n\n", flush=True)
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores: the less, the better")
    return 0


if __name__ == "__main__":
    sys.exit(main())
