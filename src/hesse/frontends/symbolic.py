"""What expressions offer besides array arithmetic: derivatives, evaluation, compilation, printing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self

from hesse.backends.arrays import Arrays, as_arrays
from hesse.backends.executable import Executable, executable
from hesse.backends.kept import keep
from hesse.backends.target import Target, as_target
from hesse.calculus import differentiate
from hesse.calculus.rolling import rolled
from hesse.errors import ArgumentError, DifferentiationError, ShapeError
from hesse.ir import Einsum, Node, Variable, bind_sizes, size_names, topological
from hesse.rewrite import simplify

if TYPE_CHECKING:
    from hesse.printing import Graph

KEPT_PROGRAMS = 256
"""Combinations of shapes and dtypes for which an expression is kept compiled."""
FORMATS = {"text": "text", "einsum": "einsum_text", "latex": "latex"}
"""The functions of `hesse.printing`, which is not loaded before it is needed."""


class SymbolicMethods:
    """Methods of `Expression` that work on its node as a formula."""

    __slots__ = ()
    node: Node

    def _wrap(self, node: Node) -> Self:
        return type(self)(node)  # type: ignore[call-arg]

    def diff(self, *variables: Any, mode: str = "auto") -> Self:
        """The derivative by the given variables (expressions or names), one after the other.

        >>> import hesse
        >>> x, A = hesse.variable("x", ("n",)), hesse.variable("A", ("n", "n"))
        >>> print(hesse.einsum("i,ij,j->", x, A, x).diff(x, x))
        A + A'
        """
        if not variables:
            raise ArgumentError("diff needs at least one variable to differentiate by")
        (node,) = simplify(rolled([self.node]))
        for variable in [self._variable(variable) for variable in variables]:
            (node,) = differentiate(node, [variable], mode)
        return self._wrap(node)

    def _variable(self, variable: Any) -> Variable:
        if isinstance(variable, str):
            named = [node for node in self.variables if node.name == variable]
            if not named:
                known = ", ".join(node.name for node in self.variables) or "none"
                raise ArgumentError(f"there is no variable {variable} in the expression; it has {known}")
            return named[0]
        node = getattr(variable, "node", None)
        if not isinstance(node, Variable):
            raise DifferentiationError(f"can only differentiate by a variable, not by {variable}")
        if node.kind != "real":
            raise DifferentiationError(f"cannot differentiate by {node.name}: it is an index array")
        return node

    @property
    def variables(self) -> tuple[Variable, ...]:
        """The variables the expression depends on, by name."""
        found = [node for node in topological([self.node]) if isinstance(node, Variable)]
        return tuple(sorted(found, key=lambda node: node.name))

    def evaluate(self, **values: Any) -> Any:
        """The value for arrays by name; symbolic sizes follow from the arrays (or are given by name).

        >>> import numpy as np, hesse
        >>> x = hesse.variable("x", ("n",))
        >>> print(np.exp(x).evaluate(x=np.zeros(2)))
        [1. 1.]
        """
        return self.compile()(**values)

    def compile(self, backend: str | Target | None = None, **settings: Any) -> CompiledExpression:
        """A function of arrays by name, compiled once for each combination of shapes and dtypes.

        The back end is "numpy", "torch" or "jax", with its settings; by default the arrays decide.
        """
        if backend is None and settings:
            raise ArgumentError(
                f"the setting {next(iter(settings))} belongs to a back end; name it: backend=..."
            )
        if backend is not None:
            backend = as_target(backend).configured(**settings)
        return CompiledExpression(simplify(rolled([self.node]))[0], backend)

    def to(self, notation: str) -> str:
        """The expression in a notation: "text", "einsum" or "latex"."""
        if notation not in FORMATS:
            raise ArgumentError(f"there is no notation {notation!r}; choose one of {', '.join(FORMATS)}")
        from hesse import printing  # noqa: PLC0415

        written: str = getattr(printing, FORMATS[notation])(simplify([self.node])[0])
        return written

    def graph(self) -> Graph:
        """The expression as a picture: `.dot`, `.svg()`, `.save(path)`."""
        from hesse.printing import Graph  # noqa: PLC0415

        return Graph(self.node)

    def __str__(self) -> str:
        return self.to("text")


class CompiledExpression:
    """A compiled expression: call it with arrays by name."""

    def __init__(self, node: Node, backend: Target | str | None = None) -> None:
        self._node = node
        self._backend = backend
        self._variables: dict[str, Variable] = {}
        for variable in [n for n in topological([node]) if isinstance(n, Variable)]:
            if self._variables.setdefault(variable.name, variable) is not variable:
                raise ArgumentError(
                    f"two variables are called {variable.name}, of shapes {variable.shape} and "
                    f"{self._variables[variable.name].shape}; give one of them another name"
                )
        self._symbols = {
            name
            for n in topological([node])
            for size in (*n.shape, *(n.ranges if isinstance(n, Einsum) else ()))
            for name in size_names(size)
        }
        self._programs: dict[Any, Executable] = {}

    def __call__(self, **values: Any) -> Any:
        arrays, runs = self._executable(values)
        casts = [
            None if variable.kind == "integer" else cast
            for variable, cast in zip(self._variables.values(), arrays.casts, strict=True)
        ]
        return arrays.run(runs, casts)[0]

    def source(self, **values: Any) -> str:
        """The source that computes the expression for such arrays."""
        return self._executable(values)[1].compiled.source

    def _executable(self, values: Mapping[str, Any]) -> tuple[Arrays, Executable]:
        missing = [name for name in self._variables if name not in values]
        if missing:
            raise ArgumentError(f"no value for {', '.join(sorted(missing))}")
        arrays = as_arrays(list(self._variables), [values[name] for name in self._variables], self._backend)
        sizes = {name: int(values[name]) for name in self._symbols - set(self._variables) if name in values}
        key = (arrays.key, tuple(sorted(sizes.items())))
        found = self._programs.get(key)
        if found is None:
            found = keep(self._programs, key, self._compile(arrays, sizes), KEPT_PROGRAMS)
        return arrays, found

    def _compile(self, arrays: Arrays, sizes: dict[str, int]) -> Executable:
        for (name, variable), shape in zip(self._variables.items(), arrays.shapes, strict=True):
            bind_shape(name, variable, shape, sizes)
        runs = executable(bind_sizes([self._node], sizes), list(self._variables), arrays.dtype, arrays.target)
        runs.check_memory()
        return runs


def bind_shape(name: str, variable: Variable, shape: tuple[int, ...], sizes: dict[str, int]) -> None:
    """Enter the sizes that the shape of an array gives to the symbols of a variable."""
    if len(shape) != variable.rank:
        axes = "1 axis" if len(shape) == 1 else f"{len(shape)} axes"
        raise ShapeError(f"{name} has {axes}, but was declared with shape {variable.shape}")
    for declared, size in zip(variable.shape, shape, strict=True):
        if isinstance(declared, str):
            if sizes.setdefault(declared, size) != size:
                raise ShapeError(f"{name} has size {size} where {declared} = {sizes[declared]} already")
        elif declared != size:
            raise ShapeError(f"{name} has shape {shape}, but was declared with shape {variable.shape}")
