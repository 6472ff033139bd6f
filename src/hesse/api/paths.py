"""Functions that decide by values (`if x.sum() > 0`): traced with the values of a call, once for each path.

While such a function is traced, a condition is computed at once from the arguments of the call, and the
branch is taken. The conditions and their outcomes are the path. A later call computes the conditions of a
known path, by one program, and runs what was compiled for it if all come out the same.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np

from hesse.api.contents import DIFFERENTIATED
from hesse.api.entries import Built, Entry
from hesse.api.trace import INDEX_SUFFIX
from hesse.backends.arrays import Arrays
from hesse.backends.executable import executable
from hesse.backends.target import library_of, target_named
from hesse.errors import ArgumentError
from hesse.frontends.tracing import deciding
from hesse.ir import Node, Variable, substitute, topological, variable

Function = TypeVar("Function", bound=Callable[..., Any])
Outcome = bool | int | bytes


class Branching(Generic[Function]):
    """A function with conditions on values. Called as it is, it is the function."""

    def __init__(self, function: Function) -> None:
        if not callable(function):
            raise ArgumentError(f"branching takes a function, not a {type(function).__name__}")
        self._function = function
        functools.update_wrapper(self, function)

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        return self._function(*arguments, **options)

    @property
    def differentiated(self) -> Function:
        """The function, for what looks at all that it reads."""
        return self._function

    def over(self, function: Function) -> Branching[Function]:
        """The same for another function."""
        return Branching(function)


def branching(function: Function) -> Branching[Function]:
    """Let a function decide by the values of its arguments: `if`, `while`, `max(a, b)`, `range(int(x))`.

    Its derivatives are traced with the values of the call, once for each path that is taken. A call on a
    known path computes the conditions, compares them, and runs what was compiled. On the border between two
    paths the derivative is that of the path taken. A derivative of such a function is one, too.

    >>> import numpy as np, hesse
    >>> @hesse.branching
    ... def f(x):
    ...     return x[0] ** 2 if x[0] > x[1] else x[1] ** 3
    >>> gradient = hesse.grad(f)
    >>> gradient(np.array([3.0, 2.0])), gradient(np.array([1.0, 2.0]))
    (array([6., 0.]), array([ 0., 12.]))
    """
    return Branching(function)


def decides(function: Any) -> bool:
    """Whether a function decides by values: because it says so, or since it is a derivative of one that does.

    >>> import hesse
    >>> decides(hesse.grad(hesse.grad(hesse.branching(abs)))), decides(hesse.grad(abs))
    (True, False)
    """
    while not isinstance(function, Branching) and hasattr(type(function), DIFFERENTIATED):
        function = getattr(function, DIFFERENTIATED)
    return isinstance(function, Branching)


class Decision(NamedTuple):
    """What was asked of a traced value ("truth", "integer", "mask"), and the answer."""

    question: str
    node: Node
    outcome: Outcome


class Path(NamedTuple):
    """The decisions that lead to an entry, and the program that computes what they depend on."""

    decisions: tuple[Decision, ...]
    conditions: Entry | None
    entry: Entry

    def outcomes(self, values: Sequence[Any]) -> tuple[Outcome, ...]:
        """How the decisions come out for other arrays; none if that cannot be computed for them."""
        if self.conditions is None:
            return ()
        try:
            with np.errstate(all="ignore"):
                results = self.conditions.run(values)
        except (ArithmeticError, LookupError, ValueError, RuntimeError):  # LinAlgError among them
            return ()
        host = self.conditions.executable.target.on_host
        return tuple(
            _outcome(decision.question, np.asarray(host(result)))
            for decision, result in zip(self.decisions, results, strict=True)
        )


def conditions_of(decisions: Sequence[Decision]) -> Built:
    """What decisions depend on, to be compiled."""
    return Built([decision.node for decision in decisions], tuple(range(len(decisions))))


def taken(paths: list[Path], values: Sequence[Any]) -> Entry | None:
    """The entry of the path that a call takes, if it is known; that path is tried first the next time."""
    found: tuple[Outcome, ...] = ()
    waiting = list(paths)
    while waiting:
        path = waiting.pop(0)
        expected = tuple(decision.outcome for decision in path.decisions)
        if expected[: len(found)] != found:
            continue
        actual = path.outcomes(values)
        if actual == expected:
            paths.remove(path)
            paths.insert(0, path)
            return path.entry
        agreeing = next(
            (k for k, pair in enumerate(zip(actual, expected, strict=False)) if pair[0] != pair[1]), 0
        )
        found = max(found, actual[: agreeing + 1], key=len)
    return None


def _outcome(question: str, value: np.ndarray) -> Outcome:
    if question == "truth":
        return bool(value)
    return int(value) if question == "integer" else (value != 0).tobytes()


class _Oracle:
    """Values of nodes, for arrays by the names of variables. What was computed once is kept."""

    def __init__(self, values: dict[str, np.ndarray], dtype: Any) -> None:
        self.decisions: list[Decision] = []
        self._arrays, self._dtype = values, dtype
        self._known: dict[Node, Variable] = {}
        """Nodes that were computed, and the variables that stand for their values."""

    def decide(self, question: str, node: Node) -> Any:
        """The answer, or None where values are not known."""
        variables = [found for found in self._reached(node) if isinstance(found, Variable)]
        if any(found.name not in self._arrays for found in variables):
            return None
        value = self._value(node)
        self.decisions.append(Decision(question, node, _outcome(question, value)))
        return value != 0 if question == "mask" else _outcome(question, value)

    def _value(self, node: Node) -> np.ndarray:
        new = [n for n in self._reached(node) if n.kind == "real" and not isinstance(n, Variable)]
        if node not in self._known and node in new:
            roots = substitute(new, dict(self._known))
            names = sorted({n.name for n in topological(roots) if isinstance(n, Variable)})
            runs = executable(roots, names, self._dtype, target_named("numpy"))
            with np.errstate(all="ignore"):
                results = runs.compiled.function(*[self._arrays[name] for name in names])
            for found, result in zip(new, results, strict=True):
                stand_in = variable(f"value {len(self._known)}", found.shape, ["argument"])
                self._arrays[stand_in.name] = np.array(result, dtype=self._dtype)
                self._known[found] = stand_in
        return self._arrays[node.name if isinstance(node, Variable) else self._known[node].name]

    def _reached(self, node: Node) -> list[Node]:
        """The nodes below, in order, as far as they are not known."""
        order: dict[Node, None] = {}
        stack = [(node, False)]
        while stack:
            current, is_done = stack.pop()
            if is_done:
                order[current] = None
            elif current not in order and current not in self._known:
                stack.append((current, True))
                stack += [(operand, False) for operand in current.operands]
        return list(order)


@contextmanager
def followed(labels: Sequence[str], arrays: Arrays) -> Iterator[list[Decision]]:
    """Around a trace: conditions are decided by the values of these arrays, and noted."""
    dtype = arrays.target.numpy_dtype(arrays.dtype)
    values: dict[str, np.ndarray] = {}
    for label, array in zip(labels, arrays.values, strict=True):
        library = library_of(array)
        host = np.asarray(array) if library is None else target_named(library).on_host(array)
        values |= {label: host.astype(dtype), label + INDEX_SUFFIX: host}
    oracle = _Oracle(values, dtype)
    with deciding(oracle.decide):
        yield oracle.decisions
