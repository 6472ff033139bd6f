"""`grad`, `jacobian`, `hessian` and the rest: functions in, functions out, traced once for each signature."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from hesse.api.arguments import Parameters, as_arrays, check_argnums, check_differentiable, check_order
from hesse.api.explain import Explanation
from hesse.api.trace import INDEX_SUFFIX, Trace, trace
from hesse.backends.numpy_backend import Compiled, compile_program
from hesse.calculus import MODES, derivative_blocks, differentiate, pull_back, push_forward
from hesse.errors import ArgumentError
from hesse.frontends.expression import Expression
from hesse.frontends.operands import as_node
from hesse.ir import Node, Variable, substitute, topological, variable
from hesse.plan import Program, make_plan, split
from hesse.rewrite import simplify

Layout = int | tuple["Layout", ...]
"""How results are arranged: a position in the list of results, or a tuple of layouts."""


class Built(NamedTuple):
    """Nodes to compute and how to arrange their values."""

    roots: list[Node]
    layout: Layout


def _arranged(layout: Layout, results: Sequence[Any]) -> Any:
    return results[layout] if isinstance(layout, int) else tuple(_arranged(part, results) for part in layout)


class _Entry(NamedTuple):
    """A compiled derivative for one signature."""

    built: Built
    program: Program
    compiled: Compiled
    dtype: np.dtype[Any]
    casts: tuple[tuple[int, np.dtype[Any] | None], ...] | None

    def run(self, values: Sequence[Any]) -> Any:
        if self.casts is not None:
            values = [values[k] if dtype is None else np.asarray(values[k], dtype) for k, dtype in self.casts]
        return _arranged(self.built.layout, self.compiled.function(*values))


def _input_plan(
    names: Sequence[str], arrays: Sequence[np.ndarray], dtype: np.dtype[Any], roots: Sequence[Node]
) -> tuple[list[str], tuple[tuple[int, np.dtype[Any] | None], ...] | None]:
    """The inputs of the program, and for each the argument and the dtype to cast it to."""
    casts = [(k, None if array.dtype == dtype else dtype) for k, array in enumerate(arrays)]
    inputs = list(names)
    read = {node.name for node in topological(roots) if isinstance(node, Variable)}
    for k, name in enumerate(names):
        if name + INDEX_SUFFIX in read:
            inputs.append(name + INDEX_SUFFIX)
            casts.append((k, None))
    needed = len(inputs) > len(names) or any(cast is not None for _, cast in casts)
    return inputs, tuple(casts) if needed else None


@dataclass(frozen=True)
class Options:
    """What to differentiate by, and how."""

    argnums: int | tuple[int, ...] = 0
    mode: str = "auto"

    def __post_init__(self) -> None:
        if self.mode != "auto" and self.mode not in MODES:
            raise ArgumentError(f"mode must be 'auto' or one of {', '.join(map(repr, MODES))}, not {self.mode!r}")


Builder = Callable[[Trace, tuple[int, ...], bool, tuple[Variable, ...], str], Built]


class Derivative:
    """A derivative of a function: call it with the arguments of the function.

    The function is traced once for each combination of shapes and dtypes; arrays it closes over are
    captured then.
    """

    def __init__(
        self, function: Callable[..., Any], build: Builder, options: Options, extra: tuple[str, ...] = ()
    ) -> None:
        self._function = function
        self._build = build
        self._options = options
        self._parameters = Parameters(function, extra)
        self._entries: dict[Any, _Entry] = {}
        self.__name__ = f"derivative of {self._parameters.function_name}"

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        if not options:
            try:
                entry = self._entries[tuple([(a.shape, a.dtype) for a in arguments])]
            except (AttributeError, KeyError, TypeError):
                pass
            else:
                return entry.run(arguments)
        names, values = self._parameters.match(arguments, options)
        if any(isinstance(value, Expression) for value in values):
            return self._inside_a_trace(names, values)
        arrays = as_arrays(names, values).values
        return self._entry(names, arrays).run(arrays)

    def _entry(self, names: tuple[str, ...], arrays: list[np.ndarray]) -> _Entry:
        key = tuple((array.shape, array.dtype) for array in arrays)
        if key not in self._entries:
            self._entries[key] = self._compile(names, arrays)
        return self._entries[key]

    def _compile(self, names: tuple[str, ...], arrays: list[np.ndarray]) -> _Entry:
        built, dtype = self._built(names, arrays)
        inputs, casts = _input_plan(names, arrays, dtype, built.roots)
        program = make_plan(built.roots)
        return _Entry(built, program, compile_program(program, inputs, dtype), dtype, casts)

    def _built(self, names: tuple[str, ...], arrays: list[np.ndarray]) -> tuple[Built, np.dtype[Any]]:
        count = len(names) - len(self._parameters.extra)
        positions, as_tuple = check_argnums(self._options.argnums, count, names[:count])
        for position in positions:
            check_differentiable(names[position], arrays[position].dtype)
        traced = trace(self._function, self._parameters, names[:count], arrays[:count])
        extra = tuple(
            variable(name, array.shape) for name, array in zip(names[count:], arrays[count:], strict=True)
        )
        built = self._build(traced, positions, as_tuple, extra, self._options.mode)
        return built, as_arrays(names, arrays).dtype

    def _inside_a_trace(self, names: tuple[str, ...], values: list[Any]) -> Any:
        """The derivative as an expression, when it is called inside a function that is being traced."""
        nodes = [value.node if isinstance(value, Expression) else as_node(value) for value in values]
        stand_ins = [np.empty(node.shape) for node in nodes]  # shapes only; nothing reads the entries
        built, _ = self._built(names, stand_ins)
        table = {variable(name, node.shape): node for name, node in zip(names, nodes, strict=True)}
        return _arranged(built.layout, [Expression(node) for node in substitute(built.roots, table)])

    def explain(self, *arguments: Any, **options: Any) -> Explanation:
        """What is computed for these arguments, and what it costs."""
        names, values = self._parameters.match(arguments, options)
        entry = self._entry(names, as_arrays(names, values).values)
        return Explanation(tuple(entry.built.roots), entry.program, entry.compiled.source, entry.dtype)

    def bind(self, **bound: Any) -> Bound:
        """The derivative with some arguments fixed: what depends on them alone is computed once."""
        return Bound(self, bound)


class Bound:
    """A derivative with some arguments fixed."""

    def __init__(self, derivative: Derivative, bound: dict[str, Any]) -> None:
        self._derivative = derivative
        signature = derivative._parameters.signature
        known = [*(signature.parameters if signature else ()), *derivative._parameters.extra]
        for name in bound:
            if name not in known:
                raise ArgumentError(f"{derivative.__name__} has no argument {name}; it has {', '.join(known)}")
        self._bound = {name: np.array(value) for name, value in bound.items()}
        self._free = [name for name in known if name not in bound]
        self._entries: dict[Any, tuple[_Entry, list[Any]]] = {}

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        values = dict(zip(self._free, arguments, strict=False))
        if len(arguments) > len(self._free):
            raise ArgumentError(f"got {len(arguments)} arguments for the free {', '.join(self._free)}")
        free = {**values, **options}
        names = tuple(name for name in (*self._free, *options) if name in free)
        names = tuple(dict.fromkeys(names))
        arrays = as_arrays(names, [free[name] for name in names])
        key = (names, arrays.signature)
        if key not in self._entries:
            self._entries[key] = self._prepare(dict(zip(names, arrays.values, strict=True)))
        entry, prepared = self._entries[key]
        return _arranged(entry.built.layout, entry.compiled.function(*self._cast(names, arrays.values, entry), *prepared))

    def _cast(self, names: tuple[str, ...], arrays: list[np.ndarray], entry: _Entry) -> list[np.ndarray]:
        table = dict(zip(names, arrays, strict=True))
        return [
            table[name[: -len(INDEX_SUFFIX)]] if name.endswith(INDEX_SUFFIX) else np.asarray(table[name], entry.dtype)
            for name in entry.compiled.inputs
            if name.removesuffix(INDEX_SUFFIX) in table
        ]

    def _prepare(self, free: dict[str, np.ndarray]) -> tuple[_Entry, list[Any]]:
        derivative = self._derivative
        everything = {**self._bound, **free}
        own = {name: value for name, value in everything.items() if name not in derivative._parameters.extra}
        extra = tuple(everything[name] for name in derivative._parameters.extra if name in everything)
        names, values = _match_by_name(derivative._parameters, own, extra)
        whole = derivative._compile(names, values)
        first, second, loads = split(whole.program, set(self._bound) | {name + INDEX_SUFFIX for name in self._bound})
        early = [name for name in whole.compiled.inputs if name.removesuffix(INDEX_SUFFIX) in self._bound]
        late = [name for name in whole.compiled.inputs if name.removesuffix(INDEX_SUFFIX) not in self._bound]
        inputs = [
            self._bound[name[: -len(INDEX_SUFFIX)]]
            if name.endswith(INDEX_SUFFIX)
            else np.asarray(self._bound[name], whole.dtype)
            for name in early
        ]
        prepared = compile_program(first, early, whole.dtype).function(*inputs)
        compiled = compile_program(second, [*late, *loads], whole.dtype)
        return _Entry(whole.built, second, compiled, whole.dtype, None), list(prepared)


def _match_by_name(
    parameters: Parameters, own: dict[str, Any], extra: tuple[Any, ...]
) -> tuple[tuple[str, ...], list[Any]]:
    ordered = [name for name in (parameters.signature.parameters if parameters.signature else own) if name in own]
    names, values = parameters.match(extra, {name: own[name] for name in ordered})
    return names, [np.asarray(value) for value in values]


def _blocks(order: int) -> Builder:
    def build(
        traced: Trace, positions: tuple[int, ...], as_tuple: bool, extra: tuple[Variable, ...], mode: str
    ) -> Built:
        variables = [traced.variables[position] for position in positions]
        blocks = derivative_blocks(traced.output, variables, order, mode)
        indices = list(itertools.product(range(len(variables)), repeat=order))
        roots = [blocks[index] for index in indices]
        return Built(roots, _nested(len(variables), order, iter(range(len(roots)))) if as_tuple else 0)

    return build


def _nested(count: int, order: int, numbers: Any) -> Layout:
    return next(numbers) if order == 0 else tuple(_nested(count, order - 1, numbers) for _ in range(count))


def derivative(
    f: Callable[..., Any], order: int = 1, argnums: int | tuple[int, ...] = 0, mode: str = "auto"
) -> Derivative:
    """The derivative of an order: output axes first, then one group of axes for each differentiation.

    With a tuple of `argnums` the result is a nested tuple of blocks, one level for each order.

    >>> import numpy as np, hesse
    >>> hesse.derivative(lambda x: np.sum(x**3), order=3)(np.ones(2)).shape
    (2, 2, 2)
    """
    return Derivative(f, _blocks(check_order(order)), Options(argnums, mode))


def jacobian(f: Callable[..., Any], argnums: int | tuple[int, ...] = 0, mode: str = "auto") -> Derivative:
    """The first derivative of a function of any output shape.

    >>> import numpy as np, hesse
    >>> hesse.jacobian(lambda x: x[:2] * x[1:])(np.array([1.0, 2.0, 3.0]))
    array([[2., 1., 0.],
           [0., 3., 2.]])
    """
    return Derivative(f, _blocks(1), Options(argnums, mode))


def hessian(f: Callable[..., Any], argnums: int | tuple[int, ...] = 0, mode: str = "auto") -> Derivative:
    """The second derivative.

    >>> import numpy as np, hesse
    >>> hesse.hessian(lambda x: x[0] ** 2 * x[1])(np.array([1.0, 2.0]))
    array([[4., 2.],
           [2., 0.]])
    """
    return Derivative(f, _blocks(2), Options(argnums, mode))


def _scalar_output(traced: Trace, what: str) -> None:
    if traced.output.rank:
        raise ArgumentError(
            f"{what} needs a function with a scalar result, this one has shape {traced.output.shape}; use jacobian"
        )


def grad(f: Callable[..., Any], argnums: int | tuple[int, ...] = 0, mode: str = "auto") -> Derivative:
    """The gradient of a scalar function; it has the shape of the variable.

    >>> import numpy as np, hesse
    >>> hesse.grad(lambda x: np.sum(x * x))(np.array([1.0, 2.0]))
    array([2., 4.])
    """

    def build(
        traced: Trace, positions: tuple[int, ...], as_tuple: bool, extra: tuple[Variable, ...], mode: str
    ) -> Built:
        _scalar_output(traced, "grad")
        return _blocks(1)(traced, positions, as_tuple, extra, mode)

    return Derivative(f, build, Options(argnums, mode))


def value_and_grad(f: Callable[..., Any], argnums: int | tuple[int, ...] = 0, mode: str = "auto") -> Derivative:
    """The value of a scalar function and its gradient, in one program."""

    def build(
        traced: Trace, positions: tuple[int, ...], as_tuple: bool, extra: tuple[Variable, ...], mode: str
    ) -> Built:
        _scalar_output(traced, "value_and_grad")
        found = differentiate(traced.output, [traced.variables[position] for position in positions], mode)
        return Built([traced.output, *found], (0, tuple(range(1, len(found) + 1)) if as_tuple else 1))

    return Derivative(f, build, Options(argnums, mode))


def jvp(f: Callable[..., Any], argnums: int = 0) -> Derivative:
    """The directional derivative: `jvp(f)(x, v)` is the Jacobian times `v`, never formed.

    >>> import numpy as np, hesse
    >>> hesse.jvp(lambda x: x**2)(np.array([1.0, 2.0]), np.array([1.0, 0.5]))
    array([2., 2.])
    """

    def build(
        traced: Trace, positions: tuple[int, ...], as_tuple: bool, extra: tuple[Variable, ...], mode: str
    ) -> Built:
        (position,), (direction,) = positions, extra
        _same_shape("v", direction, traced.variables[position].name, traced.variables[position])
        return Built(simplify([push_forward(traced.output, {traced.variables[position]: direction})]), 0)

    return Derivative(f, build, Options(_one(argnums)), extra=("v",))


def vjp(f: Callable[..., Any], argnums: int = 0) -> Derivative:
    """`vjp(f)(x, u)` is `u` times the Jacobian, never formed; `u` has the shape of the result.

    >>> import numpy as np, hesse
    >>> hesse.vjp(lambda x: x**2)(np.array([1.0, 2.0]), np.array([1.0, 0.5]))
    array([2., 2.])
    """

    def build(
        traced: Trace, positions: tuple[int, ...], as_tuple: bool, extra: tuple[Variable, ...], mode: str
    ) -> Built:
        (position,), (weights,) = positions, extra
        _same_shape("u", weights, "the result", traced.output)
        return Built(simplify(pull_back(traced.output, weights, [traced.variables[position]])), 0)

    return Derivative(f, build, Options(_one(argnums)), extra=("u",))


def hvp(f: Callable[..., Any], argnums: int = 0) -> Derivative:
    """`hvp(f)(x, v)` is the Hessian of a scalar function times `v`, never formed.

    >>> import numpy as np, hesse
    >>> hesse.hvp(lambda x: np.sum(x**3))(np.array([1.0, 2.0]), np.array([1.0, 0.5]))
    array([6., 6.])
    """

    def build(
        traced: Trace, positions: tuple[int, ...], as_tuple: bool, extra: tuple[Variable, ...], mode: str
    ) -> Built:
        _scalar_output(traced, "hvp")
        (position,), (direction,) = positions, extra
        point = traced.variables[position]
        _same_shape("v", direction, point.name, point)
        (gradient,) = differentiate(traced.output, [point], "reverse")
        return Built(simplify([push_forward(gradient, {point: direction})]), 0)

    return Derivative(f, build, Options(_one(argnums)), extra=("v",))


def _one(argnums: Any) -> int:
    if isinstance(argnums, bool) or not isinstance(argnums, int | np.integer):
        raise ArgumentError(f"argnums must be one int here, not {argnums!r}")
    return int(argnums)


def _same_shape(name: str, node: Node, other_name: str, other: Node) -> None:
    if node.shape != other.shape:
        raise ArgumentError(f"{name} has shape {node.shape}, but {other_name} has shape {other.shape}")
