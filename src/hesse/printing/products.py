"""Products of forms: chains, transposes, powers, norms, and tensors of equal entries."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import TypeGuard

from hesse.ir import Map, Node, Size, Variable, remembered, transpose
from hesse.printing.forms import Call, Chain, Elementwise, Form, Leaf, Number, Scaled, Sum, Symbol, Transposed


@remembered
def is_symmetric(node: Node) -> bool:
    """Whether a node is a square matrix that is its own transpose by its structure."""
    return node.rank == 2 and node.shape[0] == node.shape[1] and transpose(node, [1, 0]) is node


def powers(operands: Sequence[Node], scalar: bool = False) -> Form:
    """The element-wise product of operands: equal ones become powers, reciprocals divisors."""
    factors: dict[Node, int] = {}
    divisors: dict[Node, int] = {}
    for operand in operands:
        if isinstance(operand, Map) and operand.name == "reciprocal":
            (inner,) = operand.operands
            divisors[inner] = divisors.get(inner, 0) + 1
        else:
            factors[operand] = factors.get(operand, 0) + 1
    if not divisors and list(factors.values()) == [1]:
        return Leaf(operands[0])
    above = tuple((Leaf(operand), power) for operand, power in factors.items())
    return Elementwise(above, tuple((Leaf(operand), power) for operand, power in divisors.items()), scalar)


def pattern(sizes: Sequence[Size], labels: Sequence[int]) -> Form | None:
    """The name of a tensor of ones where its labels agree: `vector(1,n)`, `matrix(1,m,n)`, `eye(n)`."""
    if len(labels) == 2 and labels[0] == labels[1]:
        return Call("eye", (Symbol(str(sizes[0])),))
    return filled(1.0, sizes)


def filled(value: float, sizes: Sequence[Size]) -> Form | None:
    """A vector or a matrix of equal entries."""
    if len(sizes) not in (1, 2):
        return None
    return Call("vector" if len(sizes) == 1 else "matrix", (Number(value), *(Symbol(str(s)) for s in sizes)))


def ones(*sizes: Size) -> Form:
    """A vector of ones, whose size may follow from what it is multiplied by."""
    return Call("vector", (Number(1.0), *(Symbol(str(size)) for size in sizes)))


def norm(form: Form, power: int) -> Form:
    """A power of the norm of a vector or a matrix."""
    call = Call("norm2", (form,), scalar=True)
    return call if power == 1 else Elementwise(((call, power),), scalar=True)


def square_root(form: Form, function: Callable[[Form], Form]) -> Form | None:
    """A function of the element-wise root of a square."""
    if not isinstance(form, Elementwise) or form.divisors or any(power % 2 for _, power in form.factors):
        return None
    half = tuple((part, power // 2) for part, power in form.factors)
    return function(half[0][0] if len(half) == 1 and half[0][1] == 1 else Elementwise(half))


def chained(factors: Sequence[Form]) -> Form:
    """The matrix product of forms."""
    flat: list[Form] = []
    for factor in factors:
        flat += factor.factors if isinstance(factor, Chain) else [factor]
    return flat[0] if len(flat) == 1 else Chain(tuple(flat))


def matrix_powers(form: Chain) -> Form:
    """`X*X*X` is `X^3`, and `X^2*X` as well."""
    factors: list[Form] = []
    for base, group in itertools.groupby(map(_base_and_power, form.factors), key=lambda pair: pair[0]):
        count = sum(power for _, power in group)
        if count == 1:
            factors.append(base)
        elif isinstance(base, Transposed):
            factors.append(Transposed(Call("matrix_power", (base.body,), params=(count,))))
        else:
            factors.append(Call("matrix_power", (base,), params=(count,)))
    return factors[0] if len(factors) == 1 else Chain(tuple(factors))


def is_matrix_power(form: Form) -> TypeGuard[Call]:
    """Whether a form is a power as `matrix_powers` makes them."""
    return isinstance(form, Call) and form.name == "matrix_power" and form.table == "builtin"


def _base_and_power(form: Form) -> tuple[Form, int]:
    inner = form.body if isinstance(form, Transposed) else form
    if not is_matrix_power(inner):
        return form, 1
    (base,), (power,) = inner.arguments, inner.params
    return (base if inner is form else Transposed(base)), power


def transposed(form: Form) -> Form:
    """The transpose of a form: `(A*x)'` is `x'*A'`."""
    match form:
        case Transposed():
            return form.body
        case Chain():
            return Chain(tuple(transposed(factor) for factor in reversed(form.factors)))
        case Call(name="diag" | "eye", table="builtin"):
            return form
        case Leaf() if is_symmetric(form.node):
            return form
        case Sum() if set(map(transposed, form.terms)) == set(form.terms):
            return form  # A + A'
    return Transposed(form)


def multiplied(forms: Sequence[Form], scalar: bool = False) -> Elementwise:
    """The element-wise product of forms: equal factors become powers."""
    factors: dict[Form, int] = {}
    divisors: dict[Form, int] = {}
    for form in forms:
        group = form if isinstance(form, Elementwise) else Elementwise(((form, 1),))
        for table, parts in ((factors, group.factors), (divisors, group.divisors)):
            for part, power in parts:
                table[part] = table.get(part, 0) + power
    return Elementwise(tuple(factors.items()), tuple(divisors.items()), scalar)


def element_wise(forms: Sequence[Form]) -> Form:
    return forms[0] if len(forms) == 1 else multiplied(forms)


def inner_product(form: Form) -> Form:
    """The sum of a vector; that of a product of two is `x'*y`, that of a diagonal a trace."""
    if isinstance(form, Call) and form.name == "diagonal" and form.table == "builtin":
        return Call("tr", form.arguments, scalar=True)
    if isinstance(form, Elementwise) and not form.divisors and sum(power for _, power in form.factors) == 2:
        first, last = form.factors[0][0], form.factors[-1][0]
        if first != last or (isinstance(first, Leaf) and isinstance(first.node, Variable)):
            return Chain((Transposed(first), last))
    return square_root(form, lambda root: norm(root, 2)) or Call("sum", (form,), scalar=True)


def transposes(form: Form) -> int:
    """How many factors of a product are transposed."""
    if isinstance(form, Scaled):
        return 0 if form.body is None else transposes(form.body)
    factors = form.factors if isinstance(form, Chain) else (form,)
    return sum(isinstance(factor, Transposed) for factor in factors)
