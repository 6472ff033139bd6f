"""How measurements are made: calls in turns, thresholds by trying sizes, two records on the same program."""

from __future__ import annotations

import math
import operator
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeVar

import numpy as np

from hesse.cost import Machine

M = TypeVar("M", bound=Machine)
Call = Callable[[], Any]
Function = Callable[..., Any]
Program = tuple[Function, Sequence[np.ndarray]]
"""A function, and arrays that it is called with."""

Units = Callable[[int], float]
"""What a field counts for a program of a size."""


class Found(NamedTuple):
    """What a field should be, and what the shipped value takes on the average, relative to that, if known.

    None is beyond all sizes that were tried: there one way is better everywhere.
    """

    value: float | None
    taken: float | None = None


Measured = Found | float | None
PATIENCE, FEWEST = 0.03, 7
"""Seconds to repeat a call for, and how often at least; the least time counts."""
NEVER = 2**62
"""A threshold that nothing reaches."""


@dataclass(frozen=True)
class Target:
    """A record as it is shipped, and for each of its fields how it is measured or why it is not."""

    machine: Machine
    measurements: Mapping[str, Callable[[Any], Measured]]
    choices: Mapping[str, str]
    """Fields that are not measured, each with what it is: nothing that one of two ways is quicker from."""
    needs: Mapping[str, str]
    """What this machine lacks to measure a field."""


class Prepared(NamedTuple):
    """A program of a back end: a call of it, and what it is, as text."""

    call: Call
    text: str


Prepare = Callable[[Program, Any], Prepared]
"""What compiles a program by a record."""


def named(*functions: Callable[[M], Measured]) -> dict[str, Callable[[M], Measured]]:
    """Measurements by the names of the fields that they measure."""
    return {function.__name__: function for function in functions}


def seconds(*calls: Call) -> list[float]:
    """The least time of each call, taken in turns: others on the machine can only add to it."""
    least = [float("inf")] * len(calls)
    for call in calls:
        call()
    end = time.perf_counter() + PATIENCE * len(calls)
    rounds = 0
    while rounds < FEWEST or time.perf_counter() < end:
        for k, call in enumerate(calls):
            start = time.perf_counter()
            call()
            least[k] = min(least[k], time.perf_counter() - start)
        rounds += 1
    return least


def relative(call: Call, other: Call) -> float:
    """The time of a call relative to that of another one."""
    mine, others = seconds(call, other)
    return mine / others


def tried(sizes: Sequence[int]) -> Sequence[int]:
    """The sizes that are tried: all of them, except in tests."""
    return sizes


def smallest(sizes: Sequence[int], holds: Callable[[int], bool]) -> Measured:
    """The smallest size from which something holds, for it and for the next one."""
    sizes = tried(sizes)
    held = [holds(size) for size in sizes]
    return next((sizes[k] for k in range(len(sizes)) if all(held[k : k + 2])), None)


def largest(sizes: Sequence[int], holds: Callable[[int], bool]) -> Measured:
    """The largest size up to which something holds, for it and for the one before."""
    return smallest(sizes[::-1], holds)


def powers(first: int, last: int, step: int = 1) -> list[int]:
    """Powers of two."""
    return [2**k for k in range(first, last + 1, step)]


def random(*shape: int) -> np.ndarray:
    """Numbers that are always the same."""
    return np.random.default_rng(0).normal(size=shape)


class Undecided(Exception):
    """A field was to be measured with programs of which it decides nothing."""


@dataclass(frozen=True)
class Contest:
    """Programs of several sizes, compiled by two records, of which a field says when the first one counts.

    What is timed is what the field decides. `share` is what the first way may take at most of the other one's
    time. Where the two give the same program nothing is decided.
    """

    prepare: Prepare
    program: Callable[[int], Program]
    machine: Machine
    field: str
    ways: tuple[Machine, Machine]
    share: float = 1.0

    def gain(self, size: int) -> float | None:
        """The logarithm of what the first way takes relative to what it may."""
        program = self.program(size)
        one, other = (self.prepare(program, machine) for machine in self.ways)
        return None if one.text == other.text else math.log(relative(one.call, other.call) / self.share)

    def begins(self, sizes: Sequence[int], units: Units = float) -> Found:
        """The value in its units from which the first way should count."""
        return self._best(sizes, units, operator.ge)

    def ends(self, sizes: Sequence[int], units: Units = float) -> Found:
        """The value up to which it should."""
        return self._best(sizes, units, operator.le)

    def _best(self, sizes: Sequence[int], units: Units, counts: Callable[[float, float], bool]) -> Found:
        measured = {units(size): self.gain(size) for size in tried(sizes)}
        gains = {value: gain for value, gain in measured.items() if gain is not None}
        if not gains:
            raise Undecided(f"{self.field} decides nothing about programs of these sizes")
        return best_threshold(gains, getattr(self.machine, self.field), counts)


def best_threshold(
    gains: Mapping[float, float], shipped: float, counts: Callable[[float, float], bool]
) -> Found:
    """The threshold that takes the least time, all sizes taken together: one wrong measurement is no harm."""

    def taken(threshold: float) -> float:
        return sum(gain for value, gain in gains.items() if counts(value, threshold))

    best = min(gains, key=taken)
    least = min(taken(best), 0.0)
    return Found(best if taken(best) < 0 else None, math.exp((taken(shipped) - least) / len(gains)))


def contest(
    prepare: Prepare, program: Callable[[int], Program], machine: M, share: float = 1.0, **ways: Any
) -> Contest:
    """Two values of a field (the first one given), `field=(one, other)`, and of others that go with it."""
    one, other = (replace(machine, **{name: pair[k] for name, pair in ways.items()}) for k in (0, 1))
    return Contest(prepare, program, machine, next(iter(ways)), (one, other), share)
