"""`grad`, `jacobian`, `hessian` and the rest: functions in, functions out."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from hesse.api.arguments import check_order, check_same_shape
from hesse.api.compiled import Derivative
from hesse.api.entries import Builder, Built, Options, Request
from hesse.api.layers import layer_blocks
from hesse.api.layout import Branches, Layout, mapped, same_structure, shifted
from hesse.backends.target import Target
from hesse.calculus import (
    TAYLOR,
    Choice,
    Columns,
    along,
    choose,
    derivative_blocks,
    differentiate,
    pull_back,
    push_forward,
)
from hesse.errors import ArgumentError
from hesse.ir import Node, add, einsum, plain_axes, select, uniform
from hesse.plan import planned_cost
from hesse.rewrite import simplify

Backend = str | Target | None
"""Where to compute: "numpy", "torch", "jax", one of these with settings, or None: the arrays decide."""


def _blocks(order: int) -> Builder:
    def build(request: Request) -> Built:
        count = len(request.variables)
        if request.mode == TAYLOR or (order > 1 and request.mode == "auto"):
            repeated = _repeated(request, order)
            if repeated is not None:
                return repeated
        ranks = [variable.rank for variable in request.variables]
        indices = list(itertools.product(range(count), repeat=order))
        roots: list[Node] = []
        groups: list[tuple[int, ...]] = []
        choices: list[Choice] = []
        first: list[Node] = []
        for output in request.output.nodes if count else ():
            blocks, found = derivative_blocks(
                output, request.variables, order, request.mode, judge=planned_cost, is_dense=request.is_dense
            )
            roots += [blocks[index] for index in indices]
            groups += [(output.rank, *(ranks[k] for k in index)) for index in indices]
            choices += found
            first += found[0].derivatives
        layout = mapped(
            request.output.layout, lambda k: _nested(request.layout, count, order, k * count**order)
        )
        variables = [tuple(request.variables[k] for k in index) for index in indices]
        by = tuple(variables) * len(request.output.nodes) if count else ()
        columns = partial(_columns, request, order, first) if request.mode == "auto" else None
        return _with_aux(Built(roots, layout, tuple(groups), tuple(choices), by, columns), request)

    return build


def _columns(request: Request, order: int, first: list[Node]) -> Columns | None:
    """The derivatives by columns: Hessians of numbers, from their first derivatives, Jacobians of arrays."""
    outputs, variables = request.output.nodes, request.variables
    count = len(variables)
    if not count or order > 2 or any((order == 2) != (output.shape == ()) for output in outputs):
        return None
    inner = list(outputs) if order == 1 else first
    return Columns(inner, variables, list(itertools.product(range(len(inner)), range(count))))


def _repeated(request: Request, order: int) -> Built | None:
    """The derivative by one number, perhaps by Taylor mode; None if it is by anything else."""
    if len(request.variables) != 1 or request.variables[0].shape:
        if request.mode == TAYLOR:
            raise ArgumentError(
                "mode='taylor' makes derivatives along directions: by one number, or diagonal, laplacian, "
                f"biharmonic, partial and taylor; this one is by {', '.join(request.names)}"
            )
        return None
    direction: dict[Node, Node] = {request.variables[0]: uniform(1.0)}
    choices = [along(output, [(direction, order)], request.mode) for output in request.output.nodes]
    roots = [root for choice in choices for root in choice.derivatives]
    groups = tuple((root.rank, *(0,) * order) for root in roots)
    layout = mapped(request.output.layout, lambda k: _nested(request.layout, 1, order, k))
    return _with_aux(Built(roots, layout, groups, tuple(choices)), request)


def _nested(layout: Layout, count: int, order: int, start: int) -> Layout:
    """The arrangement of derivatives by `count` variables, of which the first is at `start`."""
    if order == 0:
        return start
    return mapped(layout, lambda k: _nested(layout, count, order - 1, start + k * count ** (order - 1)))


def _with_aux(built: Built, request: Request) -> Built:
    """The results, and beside them what the function returned besides its result."""
    if request.aux is None:
        return built
    aux = shifted(request.aux.layout, len(built.roots))
    return built._replace(roots=[*built.roots, *request.aux.nodes], layout=(built.layout, aux))


def derivative(
    f: Callable[..., Any],
    order: int = 1,
    argnums: int | tuple[int, ...] = 0,
    mode: str = "auto",
    form: str = "dense",
    chunk: int | None = None,
    backend: Backend = None,
) -> Derivative:
    """The derivative of an order: output axes first, then one group of axes for each differentiation.

    With a tuple of `argnums` the result is a nested tuple of blocks, one level for each order. With
    `form="structured"` the blocks are `Structured` tensors instead of arrays. Dense results are computed
    `chunk` entries of their first axis at a time; by default so many that everything fits into memory.
    `backend` says where to compute ("numpy", "torch" or "jax"); by default the arrays decide. Derivatives of
    high order by one number are made by Taylor mode where that is cheaper.

    >>> import numpy as np, hesse
    >>> hesse.derivative(lambda x: np.sum(x**3), order=3)(np.ones(2)).shape
    (2, 2, 2)
    """
    options = Options(argnums, mode, form, chunk, backend, is_directional=True)
    return Derivative(f, _blocks(check_order(order)), options)


def jacobian(
    f: Callable[..., Any],
    argnums: int | tuple[int, ...] = 0,
    mode: str = "auto",
    form: str = "dense",
    chunk: int | None = None,
    backend: Backend = None,
    has_aux: bool = False,
) -> Derivative:
    """The first derivative of a function of any output shape.

    >>> import numpy as np, hesse
    >>> hesse.jacobian(lambda x: x[:2] * x[1:])(np.array([1.0, 2.0, 3.0]))
    array([[2., 1., 0.],
           [0., 3., 2.]])
    """
    return Derivative(f, _blocks(1), Options(argnums, mode, form, chunk, backend, has_aux))


def hessian(
    f: Callable[..., Any],
    argnums: int | tuple[int, ...] = 0,
    mode: str = "auto",
    form: str = "dense",
    chunk: int | None = None,
    backend: Backend = None,
    has_aux: bool = False,
    blocks: str | None = None,
    one_entry: bool = False,
) -> Derivative:
    """The second derivative.

    With `one_entry` a result of shape (1,) or (1, 1) is a number, and no axes of it come first.

    With `blocks="layer"` only the blocks inside each layer of a model are made, as
    `{layer: {name: {name: block}}}`: a layer is what stands in one container, or has the same beginning in
    names such as "0.weight".

    >>> import numpy as np, hesse
    >>> hesse.hessian(lambda x: x[0] ** 2 * x[1])(np.array([1.0, 2.0]))
    array([[4., 2.],
           [2., 0.]])
    >>> H = hesse.hessian(lambda p: np.sum(p["a.w"] ** 2) * p["a.b"] + p["c.w"] ** 3, blocks="layer")
    >>> H({"a.w": np.array([1.0, 2.0]), "a.b": 2.0, "c.w": 3.0})["a"]["w"]
    {'w': array([[4., 0.],
           [0., 4.]]), 'b': array([2., 4.])}
    """
    if blocks not in (None, "layer"):
        raise ArgumentError(f"blocks must be None (all of them) or 'layer', not {blocks!r}")
    build = _blocks(2)
    if blocks == "layer":
        build = _layers
    options = Options(argnums, mode, form, chunk, backend, has_aux, one_entry=one_entry)
    return Derivative(f, build, options)


def _layers(request: Request) -> Built:
    return _with_aux(layer_blocks(request), request)


def _scalar_output(request: Request, what: str) -> Node:
    """The result of the function, if it is one number."""
    nodes, layout = request.output
    if not isinstance(layout, int):
        raise ArgumentError(
            f"{what} needs a function with a scalar result, this one returns a container; use jacobian"
        )
    if nodes[0].shape:
        one = "pass one_entry=True, or return its only entry, y.item()"
        way_out = one if set(nodes[0].shape) == {1} else "use jacobian"
        raise ArgumentError(
            f"{what} needs a function with a scalar result, this one has shape {nodes[0].shape}; {way_out}"
        )
    return nodes[0]


def grad(
    f: Callable[..., Any],
    argnums: int | tuple[int, ...] = 0,
    mode: str = "auto",
    backend: Backend = None,
    has_aux: bool = False,
    one_entry: bool = False,
) -> Derivative:
    """The gradient of a scalar function; it has the shape (and the structure) of the variable.

    With `has_aux` the function returns a pair, of which only the first part is differentiated; the result is
    the pair of the gradient and the second part. With `one_entry` a result of shape (1,) or (1, 1) is a
    number.

    >>> import numpy as np, hesse
    >>> hesse.grad(lambda x: np.sum(x * x))(np.array([1.0, 2.0]))
    array([2., 4.])
    >>> hesse.grad(lambda p: p["w"] @ p["w"] * p["b"])({"w": np.array([1.0, 2.0]), "b": 3.0})
    {'w': array([ 6., 12.]), 'b': np.float64(5.0)}
    """

    def build(request: Request) -> Built:
        _scalar_output(request, "grad")
        return _blocks(1)(request)

    return Derivative(f, build, Options(argnums, mode, backend=backend, has_aux=has_aux, one_entry=one_entry))


def value_and_grad(
    f: Callable[..., Any],
    argnums: int | tuple[int, ...] = 0,
    mode: str = "auto",
    backend: Backend = None,
    has_aux: bool = False,
    one_entry: bool = False,
) -> Derivative:
    """The value of a scalar function and its gradient, in one program.

    With `has_aux` the function returns a pair (value, aux), and the result is ((value, aux), gradient). With
    `one_entry` a value of shape (1,) or (1, 1) is a number.

    >>> import numpy as np, hesse
    >>> value, gradient = hesse.value_and_grad(lambda x: np.sum(x * x))(np.array([1.0, 2.0]))
    >>> print(value, gradient)
    5.0 [2. 4.]
    """

    def build(request: Request) -> Built:
        output = _scalar_output(request, "value_and_grad")
        choice = choose(output, request.variables, request.mode, judge=planned_cost)
        roots = [output, *choice.derivatives]
        value: Layout = 0
        if request.aux is not None:
            value = (0, shifted(request.aux.layout, len(roots)))
            roots += request.aux.nodes
        return Built(roots, (value, shifted(request.layout, 1)), choices=(choice,))

    return Derivative(f, build, Options(argnums, mode, backend=backend, has_aux=has_aux, one_entry=one_entry))


def jvp(f: Callable[..., Any], argnums: int | tuple[int, ...] = 0, backend: Backend = None) -> Derivative:
    """The directional derivative: `jvp(f)(x, v)` is the Jacobian times `v`, never formed.

    `v` has the structure of what is differentiated by: with several `argnums` it is a tuple.

    >>> import numpy as np, hesse
    >>> hesse.jvp(lambda x: x**2)(np.array([1.0, 2.0]), np.array([1.0, 0.5]))
    array([2., 2.])
    """

    def build(request: Request) -> Built:
        tangents = _tangents(request)
        nodes = [push_forward(output, tangents) for output in request.output.nodes]
        return Built(simplify(nodes), request.output.layout)

    return Derivative(f, build, Options(argnums, backend=backend), extra=("v",))


def vjp(f: Callable[..., Any], argnums: int | tuple[int, ...] = 0, backend: Backend = None) -> Derivative:
    """`vjp(f)(x, u)` is `u` times the Jacobian, never formed; `u` has the shape of the result.

    Where the function returns a container, `u` is one of the same structure.

    >>> import numpy as np, hesse
    >>> hesse.vjp(lambda x: x**2)(np.array([1.0, 2.0]), np.array([1.0, 0.5]))
    array([2., 2.])
    """

    def build(request: Request) -> Built:
        (outputs, layout), (names, weights, structure) = request.output, request.extra
        if _is_list_for(weights, structure, outputs, layout):
            names, weights = names * len(outputs), [select(weights[0], [k]) for k in range(len(outputs))]
        elif not same_structure(structure, layout):
            raise ArgumentError("u must have the structure of the result, with an array for each leaf of it")
        for name, node, output in zip(names, weights, outputs, strict=True):
            check_same_shape(name, node, "the result", output)
        if len(outputs) == 1:
            return Built(simplify(pull_back(outputs[0], weights[0], request.variables)), request.layout)
        total = add([_inner(*pair) for pair in zip(weights, outputs, strict=True)], ())
        return Built(differentiate(total, request.variables, "reverse"), request.layout)

    return Derivative(f, build, Options(argnums, backend=backend), extra=("u",), extra_like_variables=False)


def _is_list_for(weights: Sequence[Node], structure: Layout, outputs: Sequence[Node], layout: Layout) -> bool:
    """Whether a list or tuple of numbers, which by itself counts as an array, is one for such a result."""
    if not (
        isinstance(structure, int) and isinstance(layout, Branches) and layout.spec.type in (list, tuple)
    ):
        return False
    return weights[0].shape == (len(outputs),) and all(output.shape == () for output in outputs)


def hvp(
    f: Callable[..., Any],
    argnums: int | tuple[int, ...] = 0,
    backend: Backend = None,
    one_entry: bool = False,
) -> Derivative:
    """`hvp(f)(x, v)` is the Hessian of a scalar function times `v`, never formed.

    `v` has the structure of what is differentiated by, and so has the result. With `one_entry` a result of
    the function of shape (1,) or (1, 1) is a number.

    >>> import numpy as np, hesse
    >>> hesse.hvp(lambda x: np.sum(x**3))(np.array([1.0, 2.0]), np.array([1.0, 0.5]))
    array([6., 6.])
    """

    def build(request: Request) -> Built:
        output, tangents = _scalar_output(request, "hvp"), _tangents(request)
        gradients = differentiate(output, request.variables, "reverse")
        return Built(simplify([push_forward(node, tangents) for node in gradients]), request.layout)

    return Derivative(f, build, Options(argnums, backend=backend, one_entry=one_entry), extra=("v",))


def _tangents(request: Request) -> dict[Node, Node]:
    """The directions by variable."""
    names, nodes, _ = request.extra
    for name, node, other, point in zip(names, nodes, request.names, request.variables, strict=True):
        check_same_shape(name, node, other, point)
    return dict(zip(request.variables, nodes, strict=True))


def _inner(left: Node, right: Node) -> Node:
    """The sum of the products of the entries."""
    axes = plain_axes(left.rank)
    return einsum([left, right], [axes, axes], (), (), left.shape)


def compile(f: Callable[..., Any], backend: Backend = None) -> Derivative:
    """The function itself, traced and computed by a program; it may take and return containers.

    The result is called, explained, bound and given to another back end like a derivative.

    >>> import numpy as np, hesse
    >>> f = hesse.compile(lambda x, y: {"sum": x + y, "signs": (x > y, "a note")})
    >>> f(np.array([1.0, 2.0]), np.array([2.0, 1.0]))
    {'sum': array([3., 3.]), 'signs': (array([False,  True]), 'a note')}
    """

    def build(request: Request) -> Built:
        return Built(request.output.nodes, request.output.layout)

    return Derivative(f, build, Options(backend=backend, as_it_is=True))
