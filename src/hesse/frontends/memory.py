"""Memory that traced arrays share: views see what is written to an array, and write to it.

An array that is nobody's view and was never viewed has no memory here: writing to it replaces its node.
Otherwise it is a `Part` of a `Memory`, and so are its views. A memory does not copy what is written: it knows
for each entry by which value it was written, and where it stands in that value. Nodes are made of this when
somebody reads, so a loop that fills an array entry by entry costs what its entries cost.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hesse.frontends.indices import Index
from hesse.frontends.placing import entries, groups, placed
from hesse.frontends.tracing import untraceable
from hesse.ir import Node, Shape, Variable, add, constant, is_zero, number, zero
from hesse.ops import integers

if TYPE_CHECKING:
    from hesse.frontends.expression import Expression

MOST_READERS = 64
"""So many views are entered before those that are gone are looked for."""
DOUBTFUL = (
    "a value that was reshaped or ravelled, after a write to it or to its reshaped form "
    "(whether NumPy had copied it depends on its layout in memory),"
)
COPY_FIRST = "Say what you mean: x.copy().reshape(...) for a copy, or reshape after the write."


class Step(NamedTuple):
    """A view: a NumPy function and its further arguments."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    options: dict[str, Any]

    def of(self, array: np.ndarray) -> np.ndarray:
        """The view of an array."""
        found: np.ndarray = self.function(array, *self.arguments, **self.options)
        return found


class Part:
    """The part of a memory to which steps lead; `refusal` says why nobody may write to it."""

    def __init__(self, memory: Memory, steps: tuple[Step, ...], refusal: str | None = None) -> None:
        self.memory, self.steps, self.refusal = memory, steps, refusal

    @cached_property
    def positions(self) -> np.ndarray:
        """For each entry its place in the memory."""
        found = np.arange(math.prod(self.memory.shape)).reshape(self.memory.shape)
        for step in self.steps:
            found = step.of(found)
        return found

    def layouts(self) -> Iterator[np.ndarray]:
        """Arrays without meaning that lie in memory as this part may lie."""
        shape = self.memory.shape
        roots = [np.empty(shape, np.int8)]
        if not self.memory.is_ordered:
            wide = (*shape[:-1], 2 * shape[-1]) if shape else ()
            roots += [
                np.empty(shape, np.int8, order="F"),
                np.empty(wide, np.int8)[..., ::2] if wide else roots[0],
            ]
        for root in roots:
            for step in self.steps:
                root = step.of(root)  # noqa: PLW2901
            yield root


class Link(NamedTuple):
    """A memory that was made by reshaping a part of another one: a view of it or a copy, as NumPy decides."""

    source: Part
    step: Step
    result: Memory

    def is_view(self) -> bool | None:
        """Whether it shares its entries; None if that depends on what is not known."""
        shared = {np.may_share_memory(array, self.step.of(array)) for array in self.source.layouts()}
        return shared.pop() if len(shared) == 1 else None

    def join(self) -> None:
        """Make one memory of two: the parts of the result are parts of the source."""
        source, steps = self.source.memory, (*self.source.steps, self.step)
        for array in self.result.readers():
            assert array.part is not None
            array.part = Part(source, (*steps, *array.part.steps), self.source.refusal or array.part.refusal)
            source.enter(array)
        for further in self.result.links:
            moved = further._replace(source=Part(source, (*steps, *further.source.steps)))
            source.links.append(moved)
            further.result.links[further.result.links.index(further)] = moved
        self.result.links.clear()


class Memory:
    """Entries that several arrays read. `shape` and `kind` are those of the array that they belong to."""

    def __init__(self, array: Expression, is_ordered: bool) -> None:
        self.kind = kind_of(array)
        node = array.node if array.index is None else array.index.as_node()
        self.shape: tuple[int, ...] = tuple(node.shape)  # type: ignore[arg-type]
        self.is_ordered = is_ordered or (node.rank < 2 and not isinstance(node, Variable))
        self.links: list[Link] = []
        self.is_spoilt = False
        self.is_fixed = False
        self._sources = [node]
        self._owners: np.ndarray | None = None
        """For each entry which of the sources it is an entry of, and (`_places`) where."""
        self._places: np.ndarray | None = None
        self._readers: list[weakref.ref[Expression]] = []
        """Those who hold a node of what is here now."""
        self._most_readers = MOST_READERS

    @property
    def origin(self) -> Node:
        """What was here first."""
        return self._sources[0]

    @property
    def is_written(self) -> bool:
        """Whether there are entries of several values."""
        return self._owners is not None

    def enter(self, array: Expression) -> None:
        """Tell an array when something is written."""
        if not self.is_fixed:
            self._readers.append(weakref.ref(array))
            if len(self._readers) > self._most_readers:
                self._readers = [reference for reference in self._readers if reference() is not None]
                self._most_readers = 2 * len(self._readers) + MOST_READERS

    def readers(self) -> list[Expression]:
        """Those arrays that are still there."""
        return [array for reference in self._readers if (array := reference()) is not None]

    def replace(self, node: Node) -> None:
        """Write all entries."""
        self._sources, self._owners, self._places = [node], None, None
        self._forget()

    def write(self, positions: np.ndarray, node: Node) -> None:
        """Write entries of a node, which is broadcast to the positions."""
        if self._owners is None or self._places is None:
            count = math.prod(self.shape)
            self._owners, self._places = np.zeros(count, np.intp), np.arange(count)
        sizes = tuple(map(number, node.shape))
        places = np.arange(math.prod(sizes)).reshape(sizes[max(0, len(sizes) - positions.ndim) :])
        self._places[positions] = places
        self._owners[positions] = len(self._sources)
        self._sources.append(node)
        self._forget()

    def read(self, positions: np.ndarray) -> Node:
        """The entries at some positions."""
        if self.is_spoilt:
            raise untraceable(DOUBTFUL, COPY_FIRST)
        if self._owners is None or self._places is None:
            return entries(self.origin, positions)
        by_owner = groups(self._owners[positions], self._places[positions])
        if len(by_owner) == 1:
            (owner, _, places) = by_owner[0]
            return entries(self._sources[owner], places.reshape(positions.shape))
        if self.kind == "integer":
            return self._integers(by_owner, positions.shape)
        terms = [
            term
            for owner, targets, places in by_owner
            if not is_zero(self._sources[owner])
            for term in placed(self._sources[owner], targets, places, positions.shape)
        ]
        return add(terms, positions.shape) if terms else zero(positions.shape)

    def _integers(self, by_owner: list[tuple[int, np.ndarray, np.ndarray]], shape: tuple[int, ...]) -> Node:
        result: Node | None = None
        for owner, targets, places in by_owner:
            mask, whole = np.zeros(shape), np.zeros(shape, np.intp)
            mask.flat[targets], whole.flat[targets] = 1.0, places
            own = entries(self._sources[owner], whole)
            result = own if result is None else integers.choice(constant(mask), own, result)
        assert result is not None
        return result

    def _forget(self) -> None:
        readers, self._readers = self.readers(), []
        for array in readers:
            del array.node
            if self.kind == "integer":
                array.is_index = True
                del array.index

    def settle(self) -> Memory:
        """Before a write: decide what was reshaped; the memory that is this one from then on.

        Copies go their own way. Where nobody knows whether it was copied, the other one is lost.
        """
        memory = self
        while memory.links:
            link = memory.links.pop()
            other = link.result if link.source.memory is memory else link.source.memory
            other.links.remove(link)
            is_view = link.is_view()
            if is_view:
                link.join()
                memory = link.source.memory
            elif is_view is None:
                other.settle().spoil()
        return memory

    def spoil(self) -> None:
        """Nobody knows what is here."""
        self.is_spoilt = True
        self._forget()


def kind_of(array: Expression) -> str:
    """What sort of numbers an array holds."""
    if array.part is not None and array.part.memory.is_written:
        return array.part.memory.kind
    return "boolean" if array.boolean else "integer" if array.index is not None else "real"


def part_of(array: Expression, is_ordered: bool = False) -> Part:
    """The part that an array is; it gets a memory if it has none."""
    if array.part is None:
        memory = Memory(array, is_ordered or array.is_ordered)
        array.part = Part(memory, ())
        memory.enter(array)
    return array.part


def shared(array: Expression, step: Step, result: Expression, refusal: str | None = None) -> Expression:
    """The result of a step that is a view of an array in NumPy."""
    part = part_of(array)
    result.part = Part(part.memory, (*part.steps, step), part.refusal or refusal)
    part.memory.enter(result)
    return result


def reshaped(array: Expression, step: Step, result: Expression) -> Expression:
    """The result of a step that is a view or a copy in NumPy, depending on how the array lies in memory."""
    if _is_symbolic(array.shape):
        return shared(array, step, result)
    source, own = part_of(array), part_of(result)
    result.is_ordered = array.ndim < 2  # its strides descend then
    link = Link(source, step, own.memory)
    own.refusal = source.refusal
    source.memory.links.append(link)
    own.memory.links.append(link)
    return result


def protect(array: Expression, name: str) -> None:
    """Refuse writes to an array and its views."""
    if array.shape:
        part_of(array).refusal = name
        part_of(array).memory.is_fixed = True


def _is_symbolic(shape: Shape) -> bool:
    return any(isinstance(size, str) for size in shape)


def refresh(array: Expression) -> None:
    """Make the node of an array of which something was written."""
    assert array.part is not None, "nothing else is forgotten"
    memory = array.part.memory
    array.node = memory.read(array.part.positions)
    if memory.kind == "integer":
        array.index = Index(array.node)
    memory.enter(array)


def write(array: Expression, node: Node, positions: np.ndarray | None = None) -> None:
    """Put other values into an array: everywhere, or at positions of its own entries."""
    _check(array)
    if array.part is None and positions is None:
        array.node = node
        if array.index is not None:
            array.index, array.is_index = Index(node), True
        return
    part_of(array).memory.settle()
    part = part_of(array)  # which may be one of another memory by now
    memory = part.memory
    if memory.is_spoilt:
        raise untraceable(DOUBTFUL, COPY_FIRST)
    if _is_symbolic(memory.shape) and (part.steps or len(memory.readers()) > 1):
        raise untraceable("a write to an array of symbolic sizes that has views", "Bind the sizes first.")
    if positions is None and not part.steps:
        memory.replace(node)
    else:
        memory.write(part.positions if positions is None else part.positions.ravel()[positions], node)


def _check(array: Expression) -> None:
    """Refuse what must not be written to."""
    if array.part is not None and array.part.refusal is not None:
        raise untraceable(
            f"a write to {array.part.refusal}", "Write to a copy of it (y = x.copy()), or x = x + y."
        )
