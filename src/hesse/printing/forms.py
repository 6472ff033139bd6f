"""What a node looks like to a reader, before it is text or LaTeX.

`describe` (in the module of that name) turns one node into a small tree, a *form*, whose leaves are the
operands of the node. Forms say "matrix product" or "diagonal matrix" where the node says "einsum"; printers
only write them down.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, TypeVar, assert_never, cast, dataclass_transform

from hesse.ir import Axis, Node, Size, size_names

FormType = TypeVar("FormType", bound=type)


@dataclass_transform(frozen_default=True)
def form(cls: FormType) -> FormType:
    """A frozen dataclass that computes its hash once: forms are large keys, looked up all the time."""
    made: Any = dataclass(frozen=True)(cls)
    own_hash = made.__hash__

    def remembered_hash(self: Any) -> int:
        known: int | None = self.__dict__.get("_hash")
        if known is None:
            known = own_hash(self)
            object.__setattr__(self, "_hash", known)
        return known

    made.__hash__ = remembered_hash
    return cast("FormType", made)


@form
class Leaf:
    """An operand, written as its own form or by its name; `indexed` says that its form has indices."""

    node: Node
    indexed: bool = False


@form
class Number:
    """A number, also where it stands for a tensor of equal entries."""

    value: float


@form
class Symbol:
    """A variable or a size."""

    name: str


@form
class Literal:
    """A small constant array, written out."""

    value: Any
    """The entries as nested tuples."""


@form
class Call:
    """A function of whole tensors.

    `table` is "map" or "apply" for a record, "foreign" for a function from elsewhere and "builtin" for a
    notation.
    """

    name: str
    arguments: tuple[Form, ...]
    table: str = "builtin"
    scalar: bool = False
    params: tuple[Any, ...] = ()


@form
class Sum:
    """A sum of tensors of one shape, in which a number stands for a tensor of equal entries."""

    terms: tuple[Form, ...]


@form
class Transposed:
    """A matrix read with its axes exchanged, or a vector as a row."""

    body: Form


@form
class Chain:
    """A product of matrices and vectors (columns, or transposed: rows)."""

    factors: tuple[Form, ...]


@form
class Elementwise:
    """A product of powers of tensors of one shape over another such product."""

    factors: tuple[tuple[Form, int], ...]
    divisors: tuple[tuple[Form, int], ...] = ()
    scalar: bool = False


@form
class Scaled:
    """A number, symbolic sizes and scalar factors times a tensor (None: times nothing)."""

    value: float
    sizes: tuple[str, ...]
    scalars: Elementwise | None
    body: Form | None


@form
class Indexed:
    """A product in index notation; `notes` are ranges that the axes do not imply."""

    factors: tuple[tuple[Form, tuple[Axis, ...]], ...]
    output: tuple[Axis, ...]
    notes: tuple[tuple[int, Size], ...]


Label = int | str
"""An index: a number until letters are given out, those of the axes of the tensor at hand first."""


@form
class Entry:
    """An entry of a tensor: `A[i,j]`, `(A*x)[i]`."""

    body: Form
    labels: tuple[Label, ...]


@form
class Delta:
    """One where two indices are equal, else zero."""

    first: Label
    second: Label


@form
class Over:
    """A sum over all values of some indices, of which there are as many as `sizes` say."""

    labels: tuple[Label, ...]
    body: Form
    sizes: tuple[Size, ...]


Form = (
    Leaf
    | Number
    | Symbol
    | Literal
    | Call
    | Sum
    | Transposed
    | Chain
    | Elementwise
    | Scaled
    | Indexed
    | Entry
    | Delta
    | Over
)


def parts(form: Form) -> tuple[Form, ...]:
    """The forms directly inside a form."""
    match form:
        case Leaf() | Number() | Symbol() | Literal() | Delta():
            return ()
        case Call():
            return form.arguments
        case Sum():
            return form.terms
        case Transposed() | Entry() | Over():
            return (form.body,)
        case Chain():
            return form.factors
        case Elementwise():
            return tuple(part for part, _ in form.factors + form.divisors)
        case Scaled():
            return tuple(part for part in (form.scalars, form.body) if part is not None)
        case Indexed():
            return tuple(part for part, _ in form.factors)
    assert_never(form)


def mapped(form: Form, function: Callable[[Form], Form]) -> Form:
    """The form with a function applied to the forms directly inside it."""
    match form:
        case Leaf() | Number() | Symbol() | Literal() | Delta():
            return form
        case Call():
            return replace(form, arguments=tuple(map(function, form.arguments)))
        case Sum():
            return Sum(tuple(map(function, form.terms)))
        case Transposed() | Entry() | Over():
            return replace(form, body=function(form.body))
        case Chain():
            return Chain(tuple(map(function, form.factors)))
        case Elementwise():
            above = tuple((function(part), power) for part, power in form.factors)
            below = tuple((function(part), power) for part, power in form.divisors)
            return replace(form, factors=above, divisors=below)
        case Scaled():
            scalars = None if form.scalars is None else mapped(form.scalars, function)
            assert scalars is None or isinstance(scalars, Elementwise)
            return replace(form, scalars=scalars, body=None if form.body is None else function(form.body))
        case Indexed():
            return replace(form, factors=tuple((function(part), axes) for part, axes in form.factors))
    assert_never(form)


def leaves(form: Form) -> Iterator[Leaf]:
    """The operands in a form, as often as they will be written."""
    if isinstance(form, Leaf):
        yield form
    for part in parts(form):
        yield from leaves(part)


def labels_in(form: Form) -> set[Label]:
    """All labels in a form."""
    own: tuple[Label, ...] = ()
    match form:
        case Entry() | Over():
            own = form.labels
        case Delta():
            own = (form.first, form.second)
    return set(own).union(*map(labels_in, parts(form)))


def sizes_in(form: Form) -> set[str]:
    """The names of sizes, and of the variables, that are printed in a form itself."""
    own: set[str] = set()
    match form:
        case Symbol():
            own.add(form.name)
        case Call():
            own = {name for param in form.params if isinstance(param, str) for name in size_names(param)}
        case Scaled():
            own = {name for size in form.sizes for name in size_names(size)}
    return own.union(*map(sizes_in, parts(form)))


def mixes_notations(form: Elementwise, place: int) -> bool:
    """Whether a factor is in matrix notation and others have indices: `X[i,j]*(y'*y)`."""
    return not labels_in(form.factors[place][0]) and any(map(labels_in, parts(form)))


PATTERNS = {"eye": 1, "vector": 2, "matrix": 3}
"""Calls that make a tensor of a given size, and with how many arguments."""


def unsized(form: Form) -> Form:
    """The form without the sizes that follow from the other terms of a sum: `A + eye`."""
    form = mapped(form, unsized)
    if isinstance(form, Sum) and any(_has_shape(term) for term in form.terms):
        return Sum(tuple(map(_without_sizes, form.terms)))
    return form


def _is_sized(form: Form) -> bool:
    return (
        isinstance(form, Call) and form.table == "builtin" and len(form.arguments) == PATTERNS.get(form.name)
    )


def _has_shape(form: Form) -> bool:
    """Whether the shape of a term follows from its variables."""
    match form:
        case Leaf():
            return form.node.rank > 0
        case Scaled():
            return form.body is not None and _has_shape(form.body)
        case Chain():
            return not any(map(_mentions_size, form.factors)) and any(map(_has_shape, form.factors))
        case Transposed():
            return _has_shape(form.body)
        case Elementwise():
            return not form.scalar and any(_has_shape(part) for part in parts(form))
        case Call():
            return not form.scalar and not _is_sized(form) and any(map(_has_shape, form.arguments))
        case Sum():
            return any(map(_has_shape, form.terms))
    return False


def _mentions_size(form: Form) -> bool:
    return _is_sized(form) or any(map(_mentions_size, parts(form)))


def _without_sizes(form: Form) -> Form:
    match form:
        case Call() if _is_sized(form):
            return replace(form, arguments=() if form.name == "eye" else form.arguments[:1])
        case Scaled() | Chain() | Transposed() | Sum():
            return mapped(form, _without_sizes)
    return form
