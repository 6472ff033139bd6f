"""The derivation of a derivative, as a person would follow it.

The arguments of nonlinear functions get names (`t1 = A*x - y`). The derivative of each named part by the
parts directly inside it is a *local* derivative; multiplying them from the outside to the inside (the chain
rule in reverse mode) and putting the names back gives the result. Each line is a claim that holds: a step
keeps the nodes of both sides, and tests compare them.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from hesse.calculus import differentiate, pull_back
from hesse.derivation.rules import rules_between, symmetric_variables
from hesse.ir import Add, Einsum, Node, Variable, add, delta, dependents, substitute, topological, variable
from hesse.printing import latex, text
from hesse.rewrite import simplify

MOST_NAMES = 4
"""So many parts get names; those near the result come first."""
LARGEST_LINE = 60
"""Lines between the first and the last with more nodes than this are left out: nobody would read them."""
FUNCTION_NAMES = ("f", "g", "h", "r", "u", "v")
INDEXED = re.compile(r"^\w+(\[[a-z,]+\]) = ")
"""The left side that a formula in index notation brings along."""


@dataclass(frozen=True)
class Step:
    """A line of a derivation: the name of the rule, and the formula as text.

    The claim is that `right` equals `left` or, with `by`, the derivative of `left` by that variable; in both,
    names are replaced by what they stand for as far as they depend on `by`. `written` is the right side as
    it is printed, `symbol` the left side.
    """

    rule: str
    formula: str
    symbol: str
    written: Node
    left: Node
    by: Variable | None
    right: Node

    @property
    def latex(self) -> str:
        """The formula for typesetting."""
        return " = ".join([*map(_latex_symbol, self.symbol.split(" = ")), latex(self.written)])

    def __str__(self) -> str:
        return f"{self.formula}    ({self.rule})"


def steps(node: Node, variables: Sequence[Variable]) -> list[Step]:
    """The derivative of a function by variables, one after the other, step by step.

    >>> import numpy as np, hesse
    >>> from hesse.derivation import steps
    >>> A, x, y = hesse.variable("A", ("m", "n")), hesse.variable("x", ("n",)), hesse.variable("y", ("m",))
    >>> for step in steps(np.sum(np.exp(A @ x - y)).node, [x.node]):
    ...     print(step)
    f = sum(exp(A*x - y))    (the function)
    t1 = A*x - y    (a name for the argument)
    f = sum(exp(t1))    (the function with names)
    df/dt1 = exp(t1)    (derivative of exp)
    dt1/dx = A    (derivative of a linear function)
    df/dx = A'*exp(t1)    (chain rule)
    df/dx = A'*exp(A*x - y)    (the names replaced)
    """
    taken = {part.name for part in topological([node]) if isinstance(part, Variable)}
    letters = (letter for letter in FUNCTION_NAMES if letter not in taken)
    names = _Names(taken)
    found: list[Step] = []
    (simple,) = simplify([node])
    title = ""
    for by in variables:
        symbol = next(letters, "F")
        derivation = _Derivation(simple, by, symbol, symbol + title, names)
        found += derivation.lines()
        simple, title = derivation.result, f" = d{symbol}/d{by.name}"
    return found


class _Names:
    """Names of parts: a part keeps its name from one order of the derivative to the next."""

    def __init__(self, taken: Iterable[str]) -> None:
        self.free = (f"t{number}" for number in itertools.count(1) if f"t{number}" not in taken)
        self.known: dict[Node, Variable] = {}

    def of(self, part: Node) -> Variable:
        """The variable that stands for a part."""
        if part not in self.known:
            self.known[part] = variable(next(self.free), part.shape)
        return self.known[part]


class _Derivation:
    """The derivation of one derivative."""

    def __init__(self, function: Node, by: Variable, symbol: str, title: str, names: _Names) -> None:
        self.function, self.by, self.symbol, self.title = function, by, symbol, title
        (self.result,) = differentiate(function, [by])
        parts = _worth_a_name(function, by)
        self.told = set(names.known)
        self.names = {part: names.of(part) for part in parts}
        self.meaning = {name: part for part, name in self.names.items()}
        self.local = {part: self._with_names(part) for part in [*parts, function]}

    def _with_names(self, part: Node) -> Node:
        """A part with the named parts inside it as variables."""
        inner = {other: name for other, name in self.names.items() if other is not part}
        return simplify(substitute([part], inner))[0]

    def lines(self) -> list[Step]:
        """The steps."""
        is_first = self.symbol == self.title
        lines = []
        if is_first or not self.names:
            lines.append(self._claim("the function", self.title, self.function, self.function))
        for part, name in self.names.items():
            if part not in self.told and not _is_long(self.local[part]):
                lines.append(self._claim("a name for the argument", name.name, self.local[part], part))
        if self.names:
            lines.append(
                self._claim("the function with names", self.title, self.local[self.function], self.function)
            )
        lines += self._chain()
        symmetric = symmetric_variables(self.result)
        rule = "the names replaced" if self.names else rules_between(self.function, self.by)
        if symmetric:
            rule += f", {' and '.join(symmetric)} symmetric"
        symbol = f"d{self.symbol}/d{self.by.name}"
        lines.append(self._step(rule, symbol, self.result, self.function, self.by))
        return _without_repetitions(lines)

    def _chain(self) -> list[Step]:
        """Local derivatives, and their products from the outside to the inside."""
        lines: list[Step] = []
        lead = self.function.shape
        adjoint: dict[Node, list[Node]] = {self.function: [delta(lead)]}
        for part in [self.function, *reversed(self.names)]:
            if part not in adjoint:
                continue
            outer = add(adjoint[part], lead + part.shape)
            if part is not self.function:
                outer = simplify([outer])[0]
                lines += self._total("chain rule", self.names[part], outer)
            inputs = self._inputs(part)
            if part is not self.function:
                lines += [line for name in inputs for line in self._local(part, name)]
            for name, term in zip(inputs, pull_back(self.local[part], outer, inputs), strict=True):
                adjoint.setdefault(self.meaning.get(name, name), []).append(term)
        if self.names:
            (whole,) = simplify([add(adjoint[self.by], lead + self.by.shape)])
            lines += self._total("chain rule", self.by, whole)
        return lines

    def _inputs(self, part: Node) -> list[Variable]:
        inside = topological([self.local[part]])
        return [name for name in [*self.meaning, self.by] if name in inside and name is not part]

    def _local(self, part: Node, by: Variable) -> list[Step]:
        """The line with a local derivative, if it is not too long."""
        local = self.local[part]
        (right,) = differentiate(local, [by], "reverse")
        symbol = f"d{self.names[part].name}/d{by.name}"
        (written,) = substitute([right], self.names)
        if _is_long(written):
            return []
        return [self._step(rules_between(local, by), symbol, written, local, by, right)]

    def _total(self, rule: str, by: Variable, written: Node) -> list[Step]:
        """The line with the derivative of the function by a name, if it is not too long.

        In the claim everything above the name is put back in.
        """
        above = self._above(by)
        left, right = self.local[self.function], written
        (written,) = simplify(substitute([written], self.names))
        if _is_long(written):
            return []
        for name in above:  # outermost names first: their definitions hold the others
            left, right = substitute([left, right], {name: self.local[self.meaning[name]]})
        if not above and by is not self.by:
            rule = rules_between(self.local[self.function], by)
        return [self._step(rule, f"d{self.symbol}/d{by.name}", written, left, by, right)]

    def _above(self, by: Variable) -> list[Variable]:
        """The names whose meaning depends on `by`, outermost first."""
        order = list(self.meaning)
        moving = dependents(topological([self.function]), [self.meaning.get(by, by)])
        return [name for name in reversed(order) if self.meaning[name] in moving and name is not by]

    def _claim(self, rule: str, symbol: str, written: Node, meaning: Node) -> Step:
        right = written
        for name in reversed(list(self.meaning)):
            (right,) = substitute([right], {name: self.local[self.meaning[name]]})
        return self._step(rule, symbol, written, meaning, None, right)

    def _step(
        self,
        rule: str,
        symbol: str,
        written: Node,
        left: Node,
        by: Variable | None,
        right: Node | None = None,
    ) -> Step:
        formula = text(written)
        indexed = INDEXED.match(formula)
        subject = f"({symbol}){indexed[1]}" if indexed and "/" in symbol else symbol
        subject += indexed[1] if indexed and "/" not in symbol else ""
        body = formula[indexed.end() :] if indexed else formula
        return Step(
            rule, f"{subject} = {body}", symbol, written, left, by, written if right is None else right
        )


def _worth_a_name(function: Node, by: Variable) -> list[Node]:
    """The arguments of nonlinear functions, operands first, that are more than the variable itself."""
    order = topological([function])
    moving = dependents(order, [by])
    arguments: dict[Node, None] = {}
    for node in order:
        operands = [operand for operand in node.operands if operand in moving]
        linear = isinstance(node, Add) or (isinstance(node, Einsum) and len(operands) < 2)
        if node in moving and not linear:
            product = isinstance(node, Einsum) and len(set(operands)) > 1
            arguments.update(dict.fromkeys(op for op in operands if not (product and _is_chain(op))))
    found = [node for node in order if node in arguments and not _is_view(node) and node.kind == "real"]
    return found[-MOST_NAMES:]


def _is_long(written: Node) -> bool:
    return len(topological([written])) > LARGEST_LINE


def _is_chain(node: Node) -> bool:
    """Whether the node is a product of variables, such as A*x: as a factor it needs no name."""
    return isinstance(node, Einsum) and all(isinstance(operand, Variable) for operand in node.operands)


def _is_view(node: Node) -> bool:
    """Whether the node is a variable, or a part or multiple of one."""
    return isinstance(node, Variable) or (_is_chain(node) and len(node.operands) == 1)


def _without_repetitions(lines: list[Step]) -> list[Step]:
    """No line that says what the line before it with the same left side says."""
    said: dict[str, str] = {}
    kept = []
    for line in lines:
        if said.get(line.symbol) != line.formula:
            kept.append(line)
        said[line.symbol] = line.formula
    return kept


def _latex_symbol(symbol: str) -> str:
    """`df/dx` as a fraction, `t1` with an index."""
    over = re.fullmatch(r"d(\w+)/d(\w+)", symbol)
    if over:
        return rf"\frac{{\partial {_latex_symbol(over[1])}}}{{\partial {_latex_symbol(over[2])}}}"
    numbered = re.fullmatch(r"([A-Za-z]+)(\d+)", symbol)
    return f"{numbered[1]}_{{{numbered[2]}}}" if numbered else symbol.replace("_", r"\_")
