"""Formulas: expressions read from text, which remember what they are derivatives of."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hesse.api.declarations import with_declarations
from hesse.api.matrix_form import verified_form
from hesse.api.verify import Differentiation, verify
from hesse.backends.numpy.interpreter import Values
from hesse.backends.target import Target
from hesse.calculus import differentiate
from hesse.errors import ArgumentError
from hesse.frontends.expression import Expression
from hesse.frontends.language import read_formula
from hesse.frontends.symbolic import CompiledExpression, bind_shape
from hesse.ir import Apply, Einsum, Map, Node, Shape, Variable, pairwise, size_names, substitute, topological
from hesse.ir import variable as variable_node
from hesse.ir.attributes import STRUCTURES, special_first, swap_sign
from hesse.printing import Graph, KroneckerForm, einsum_text, index_text, latex, text
from hesse.rewrite import simplify

if TYPE_CHECKING:
    from hesse.convexity import Convexity
    from hesse.derivation import Step

SYMMETRIC_MODES = ("free", "projected", "half")
TRIED_MODES = ("forward", "lowest-order-first")
"""Of the orders of multiplication these two are tried: one of them is the cheapest, or nearly."""
HIGH_ORDER_MODE = "two-sided"
"""How second derivatives are differentiated again: with names for sizes, costs are not worth comparing."""
NOTATIONS: Mapping[str, Callable[[Node, frozenset[str]], str]] = {
    "matrix": text,
    "text": text,
    "index": index_text,
    "latex": latex,
    "einsum": einsum_text,
}
"""Every formula has these; "kronecker" is another one that some derivatives have."""
READABLE = ("matrix", "text", "index")
"""Those of the language, in which a formula can be read again."""


class Formula(Expression):
    """An expression that was read from text, or a derivative of one.

    `parent` is the formula it is a derivative of (None for the text itself) and `by` the variable. What is
    printed of a derivative has been compared with a finite difference before.
    """

    __slots__ = ("_compiled", "_error", "_form", "_known", "_plain", "_values", "by", "parent", "symmetric")

    def __init__(
        self,
        node: Node,
        parent: Formula | None = None,
        by: Variable | None = None,
        symmetric: str = "free",
        known: tuple[Variable, ...] | None = None,
        plain: Node | None = None,
    ) -> None:
        super().__init__(node)
        self._plain = node if plain is None else plain
        self._known = known
        self.parent = parent
        self.by = by
        self.symmetric = symmetric
        self._compiled: CompiledExpression | None = None
        self._values: Values | None = None
        self._form: tuple[KroneckerForm | None] | None = None
        self._error: float | None = 0.0 if parent is None else None

    def __repr__(self) -> str:
        return f"Formula({str(self)!r})"

    @property
    def function(self) -> Formula:
        """The formula that was read, of which this one is a derivative."""
        root = self
        while root.parent is not None:
            root = root.parent
        return root

    @property
    def differentiated_by(self) -> tuple[Variable, ...]:
        """The variables of the differentiations, first to last."""
        return () if self.parent is None or self.by is None else (*self.parent.differentiated_by, self.by)

    @property
    def variables(self) -> tuple[Variable, ...]:
        """The variables of the text that was read, by name; the formula itself may not need them all."""
        root = self.function
        return super(Formula, root).variables if root._known is None else root._known

    @property
    def open_sizes(self) -> tuple[str, ...]:
        """The names of the sizes that the text leaves open, in the order of its variables.

        >>> import hesse
        >>> hesse.parse("norm2(A*x - y)^2").open_sizes
        ('m', 'n')
        """
        nodes = topological([self.function.node])
        shapes = [variable.shape for variable in self.variables] + [node.shape for node in nodes]
        shapes += [node.ranges for node in nodes if isinstance(node, Einsum)]
        return tuple(dict.fromkeys(name for shape in shapes for size in shape for name in size_names(size)))

    def diff(self, *variables: Any, mode: str = "auto", symmetric: str = "free") -> Formula:
        """The derivative by the given variables (names), one after the other.

        For a variable that is declared symmetric, antisymmetric or diagonal, `symmetric` says what is meant:

        - "free": the plain derivative G, all entries taken for independent;
        - "projected": its part that has the same structure, `(G + G')/2` for a symmetric variable;
        - "half": the derivative by its independent entries, `G + G' - diag(diag(G))` for a symmetric one.

        >>> import hesse
        >>> print(hesse.parse("x'*A*x").diff("x", "x"))
        A + A'
        """
        if not variables:
            raise ArgumentError("diff needs at least one variable to differentiate by")
        if symmetric not in SYMMETRIC_MODES:
            raise ArgumentError(f"symmetric must be one of {', '.join(SYMMETRIC_MODES)}, not {symmetric!r}")
        result = self
        for variable in [self._variable(variable) for variable in variables]:
            is_high = len(result.differentiated_by) > 1
            chosen = HIGH_ORDER_MODE if mode == "auto" and is_high else mode
            function, by = simplify([result._plain])[0], _without_structure(variable)
            (plain,) = differentiate(function, [by], chosen, TRIED_MODES)
            (plain,) = simplify([_with_structure(plain, variable, symmetric)])
            result = Formula(self._with_facts(plain), result, variable, symmetric, plain=plain)
        return result

    def _with_facts(self, plain: Node) -> Node:
        """The node in which the variables have the structures that were declared."""
        facts: dict[Node, Node] = {
            _without_structure(variable): variable
            for variable in self.variables
            if variable.attributes & STRUCTURES
        }
        return simplify(substitute([plain], facts))[0] if facts else plain

    def compile(self, backend: str | Target | None = None, **settings: Any) -> CompiledExpression:
        """A function of arrays by name, compiled once for each combination of shapes and dtypes.

        The back end is "numpy", "torch" or "jax", with its settings; by default the arrays decide.
        """
        if backend is not None:
            return super().compile(backend, **settings)
        if self._compiled is None:
            self._compiled = super().compile()
        return self._compiled

    def evaluate(self, /, **values: Any) -> Any:
        """The value for arrays by name; sizes follow from the arrays (or are given by name).

        >>> import numpy as np, hesse
        >>> print(hesse.parse("x'*A*x").diff("x").evaluate(x=np.ones(2), A=np.eye(2)))
        [2. 2.]
        """
        known = {variable.name: variable for variable in self.variables}
        unknown = [name for name in values if name not in known and name not in self.open_sizes]
        if unknown:
            raise ArgumentError(
                f"there is no variable or size {unknown[0]} in the formula; it has "
                f"{', '.join([*known, *self.open_sizes]) or 'none'}"
            )
        sizes = {name: int(values[name]) for name in self.open_sizes if name in values and name not in known}
        for name, variable in known.items():
            if name in values:
                bind_shape(name, variable, np.shape(values[name]), sizes)
                if variable.attributes:
                    _check_facts(variable, np.asarray(values[name]))
        return self.compile()(**{**values, **sizes})

    def to(self, notation: str) -> str:
        """The formula in a notation, or as a function in a language.

        Notations are "matrix" (or "text", what `str` gives), "index", "latex", "einsum" and, for derivatives
        of order 3 and 4 that have one, "kronecker" (see `kronecker`); languages are "numpy", "torch", "jax",
        "matlab", "julia" and "cpp".

        >>> import hesse
        >>> print(hesse.parse("norm2(x)^2").diff("x").to("index"))
        g[i] = 2*x[i]
        """
        self.verify()
        (node,) = simplify([self.node])
        if notation in NOTATIONS:
            taken = frozenset(variable.name for variable in self.variables)
            written = NOTATIONS[notation](node, taken)
            return self._declared(written) if notation in READABLE else written
        if notation == "kronecker":
            return self._kronecker_text()
        from hesse.export import LANGUAGES, export  # noqa: PLC0415

        if notation not in LANGUAGES:
            known = ", ".join([*NOTATIONS, "kronecker", *LANGUAGES])
            raise ArgumentError(f"there is no notation {notation!r}; choose one of {known}")
        return export(node, notation, self._name, self._description)

    def kronecker(self) -> KroneckerForm | None:
        """A derivative of order 3 or 4 as a matrix, in `text` and `latex`; None if it has no such form.

        It is the matrix M with vec(dF) = M*vec(dX), where X is the last variable, F the function, or its
        derivative by the variables before the last one, and vec stacks the columns of a matrix.

        >>> import hesse
        >>> print(hesse.parse("norm2(T - U*V')^2").diff("U", "U").kronecker().text)
        2*kron(V'*V, eye(m))
        """
        if self.by is None:
            return None
        if self._form is None:
            self.verify()
            (node,) = simplify([self.node])
            self._form = (verified_form(node, self._differentiation()),)
        return self._form[0]

    def _declared(self, written: str) -> str:
        return with_declarations(written, self.variables, self.open_sizes)

    def _kronecker_text(self) -> str:
        found = self.kronecker()
        if found is not None:
            return self._declared(found.text)
        if self.node.rank < 3:
            raise ArgumentError(
                f"a matrix form with Kronecker products is for derivatives of order 3 and 4, and this is a "
                f"tensor of order {self.node.rank}: use the notation matrix"
            )
        raise ArgumentError(
            "the derivative has no matrix form with Kronecker products: use the notation index"
        )

    @property
    def _name(self) -> str:
        """What a function that computes the formula is called."""
        by = self.differentiated_by
        if len(by) == 1:
            return "jacobian" if self.function.node.rank else "gradient"
        scalar = not self.function.node.rank
        return "function" if not by else "hessian" if len(by) == 2 and scalar else "derivative"

    @property
    def _description(self) -> str:
        """One line that says what the formula is."""
        function = text(simplify([self.function.node])[0])
        if self.parent is None:
            return f"The value of {function}."
        names = ", ".join(variable.name for variable in self.differentiated_by)
        return f"The derivative of {function} by {names}."

    def steps(self) -> list[Step]:
        """The derivation of a derivative, rule by rule; each step has a `rule` and a `formula`.

        >>> import hesse
        >>> for step in hesse.parse("sum(exp(x))").diff("x").steps():
        ...     print(step)
        f = sum(exp(x))    (the function)
        df/dx = exp(x)    (derivative of exp)
        """
        self.verify()
        from hesse.derivation import steps  # noqa: PLC0415

        return steps(self.function.node, self.differentiated_by)

    def convexity(self, name: str) -> Convexity:
        """Whether the formula is convex or concave in a variable, and why; "unknown" claims nothing.

        >>> import hesse
        >>> print(hesse.parse("sum(exp(A*x))").convexity("x").verdict)
        convex
        """
        from hesse.convexity import convexity  # noqa: PLC0415

        return convexity(self.node, self._variable(name))

    def graph(self) -> Graph:
        """The formula as a picture: `.dot`, `.svg()`, `.save(path)`."""
        self.verify()
        return super().graph()

    def verify(self) -> float:
        """Compare the formula, if it is a derivative, with a finite difference of what it is a derivative of.

        It is done once, before the formula is printed for the first time, for the orders below it too. The
        result is the relative difference of the two; a mismatch raises an error.
        """
        chain = [self]
        while chain[-1].parent is not None and chain[-1]._error is None:
            chain.append(chain[-1].parent)
        for formula in reversed(chain):
            formula._error = formula._step_error() if formula._error is None else formula._error
        assert self._error is not None
        return self._error

    def _step_error(self) -> float:
        return verify(self._differentiation())

    def _differentiation(self) -> Differentiation:
        assert self.parent is not None and self.by is not None
        names = ", ".join(variable.name for variable in self.differentiated_by)
        return Differentiation(
            self.parent._at,
            self._at,
            self.variables,
            self.open_sizes,
            self.by,
            self.node.shape,
            _inner_shapes([self.parent.node, self.node]),
            self.symmetric == "half",
            f"by {names}",
        )

    def _at(self, values: Mapping[str, np.ndarray], sizes: Mapping[str, int]) -> np.ndarray:
        if self._values is None:
            self._values = Values(self.node)
        return self._values(values, sizes)


def _inner_shapes(roots: Sequence[Node]) -> list[Shape]:
    """The shapes of the operands of functions: sums and products of them need not be formed."""
    functions = [node for node in topological(roots) if isinstance(node, Map | Apply)]
    return [operand.shape for node in functions for operand in node.operands]


def _without_structure(variable: Variable) -> Variable:
    """The variable, all of its entries taken for independent."""
    return variable_node(variable.name, variable.shape, variable.attributes - STRUCTURES, variable.kind)


def _with_structure(node: Node, variable: Variable, symmetric: str) -> Node:
    """The derivative by a matrix with a declared structure: its last two axes in the asked-for sense."""
    sign = swap_sign(variable.attributes)
    if symmetric == "free" or not sign:
        return node
    diagonal = pairwise("...ii->...ii", node)
    if "diagonal" in variable.attributes:
        return diagonal
    both = node + pairwise("...ij->...ji", node) * sign
    if symmetric == "projected":
        return both * 0.5
    return both - diagonal if sign > 0 else both


def _check_facts(variable: Variable, array: np.ndarray) -> None:
    """Refuse an array that is not what the variable was declared to be: results would be wrong."""
    for attribute in special_first(variable.attributes):
        flaw = attribute.flaw(array)
        if flaw is not None:
            raise ArgumentError(f"{variable.name} was declared {attribute.name}, but the array {flaw}")


def parse(text: str, /, **types: str) -> Formula:
    """The formula that a text means; types of variables can be given by name.

    >>> import hesse
    >>> print(hesse.parse("norm2(A*x - y)^2").diff("x"))
    2*A'*(A*x - y)
    >>> print(hesse.parse("x'*A*x", A="symmetric matrix").diff("x"))
    2*A*x
    """
    reading = read_formula(text, types)
    return Formula(reading.node, known=reading.variables, plain=reading.plain)


def diff(formula: str | Formula, /, *variables: Any, symmetric: str = "free", **types: str) -> Formula:
    """The derivative of a formula, or of a text, by variables; see `Formula.diff`.

    >>> import hesse
    >>> print(hesse.diff("tr(A*X)", "X", symmetric="projected", X="symmetric matrix"))
    0.5*(A + A')
    """
    expression = parse(formula, **types) if isinstance(formula, str) else formula
    return expression.diff(*variables, symmetric=symmetric)
