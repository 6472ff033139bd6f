"""Random numbers inside a function: a trace would hold one draw forever, so they are found and refused.

Where a function may draw, it is traced again, and again, since coins fall alike every other time. A seed
inside the function, or numbers that do not matter, give the same each time.
"""

from __future__ import annotations

import os
import random
import secrets
import sys
import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from types import FunctionType
from typing import Any

import numpy as np

from hesse.api.entries import Built
from hesse.api.layout import Branches, Fixed, Layout
from hesse.api.surroundings import Walk
from hesse.errors import TracingError
from hesse.ir import Apply, Node, rebuild, topological
from hesse.ops.foreign import FOREIGN, Rule, foreign, rule_of

GENERATORS = (np.random.Generator, np.random.RandomState, np.random.BitGenerator, random.Random)
NAMES = frozenset(
    {"random", "default_rng", "RandomState", "SystemRandom"}
    | {"secrets", "randbelow", "randbits", "token_bytes", "token_hex", "urandom", "getrandom", "uuid4"}
)
"""What a function that draws by itself mentions."""

MOST_TRACES, PATIENCE = 20, 1.0
"""So often a function that may draw is traced again, and not after so many seconds."""


def checked(build: Callable[[], Built], walk: Walk, leaves: Iterable[Any], name: str) -> Built:
    """What is built; an error if it is something else each time because of random numbers."""
    before = _shared_state()
    built = build()
    values = [*leaves, *(place.value for place in walk.places)]
    if not (walk.names & NAMES or any(map(_is_generator, values)) or _shared_state() != before):
        return built
    start = time.monotonic()
    for _ in range(MOST_TRACES):
        again = build()
        is_same = _is_alike(built.roots, again.roots) and len(_known(built)) == len(_known(again))
        if not is_same or not all(map(_is_equal, _known(built), _known(again))):
            raise TracingError(
                f"{name} draws random numbers, which would be the same in every call. Pass them as an "
                "argument (f(x, noise)), or draw them by a seed inside of the function: "
                "np.random.default_rng(0)."
            )
        if time.monotonic() - start > PATIENCE:
            break
    return built


def _is_alike(roots: Sequence[Node], others: Sequence[Node]) -> bool:
    """Whether these are the same nodes, with rules of foreign functions that mean the same."""
    rules: dict[Hashable, Rule] = {}
    return roots == others or _with_rules(roots, rules) == _with_rules(others, rules)


def _with_rules(roots: Sequence[Node], rules: dict[Hashable, Rule]) -> list[Node]:
    """The nodes with one rule for all of the same meaning."""
    new: dict[Node, Node] = {}
    for node in topological(roots):
        operands = tuple(new[operand] for operand in node.operands)
        if isinstance(node, Apply) and node.name == FOREIGN:
            rule = rules.setdefault(rule_of(node).meaning(), rule_of(node))
            new[node] = foreign(rule, *operands)[node.params[1]]
        else:
            new[node] = node if operands == node.operands else rebuild(node, operands)
    return [new[root] for root in roots]


def _is_generator(value: Any) -> bool:
    if isinstance(value, FunctionType) and value.__module__ == secrets.__name__:
        return True
    # asked of the class: an object may answer for any attribute, or raise what it likes
    is_bound = hasattr(type(value), "__self__") and isinstance(value.__self__, GENERATORS)
    return value is os.urandom or is_bound or isinstance(value, GENERATORS)


def _shared_state() -> tuple[Any, ...]:
    """What the generators of `np.random.normal`, `random.random` and `torch.rand` will do next."""
    state: Any = np.random.get_state()
    name, keys, *rest = state
    return name, keys.tobytes(), *rest, random.getstate(), _state_of_torch()


def _state_of_torch() -> bytes | None:
    """Numbers, which none of the transformations that hesse may be called in looks at."""
    torch = sys.modules.get("torch")
    if torch is None:
        return None
    with torch._C._DisableFuncTorch(), torch.utils._python_dispatch._disable_current_modes():
        return torch.random.get_rng_state().numpy().tobytes()  # type: ignore[no-any-return]


def _known(built: Built) -> list[Any]:
    """The numbers among the results that no program computes."""
    return [v for v in _values(built.layout) if isinstance(v, np.ndarray | np.generic | int | float)]


def _values(layout: Layout) -> Iterator[Any]:
    if isinstance(layout, Fixed):
        yield layout.value
    for part in layout if isinstance(layout, tuple) else layout.parts if isinstance(layout, Branches) else ():
        yield from _values(part)


def _is_equal(first: Any, second: Any) -> bool:
    return np.asarray(first).tobytes() == np.asarray(second).tobytes()
