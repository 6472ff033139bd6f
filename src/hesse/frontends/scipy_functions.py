"""Functions of `scipy.special` (and a few of NumPy) that have no row: computed by SciPy itself, on the host.

What is known of each are its partial derivatives, formulas in terms of its value and its operands. SciPy is
imported when one of them is computed, not before.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import hesse.ops.elementwise as table
from hesse.errors import DifferentiationError
from hesse.frontends.dispatch import NAMED, implements
from hesse.frontends.expression import Expression
from hesse.frontends.operands import broadcast_nodes
from hesse.ir import Apply, Node, einsum, multiply, plain_axes, reciprocal, uniform
from hesse.ops.foreign import Output, Rule, foreign

Partial = Callable[..., Node]
"""The factor dy/dx in terms of the value and the operands."""
CONSTANT = "constant"
"""Says that a function is locally constant in an operand."""


class _Unknown(Rule):
    """A derivative that nobody knows: it may be multiplied by zero, but not computed."""

    def __init__(self, name: str, slot: int) -> None:
        super().__init__(f"the derivative of {name} by argument {slot + 1}")

    def _refused(self) -> DifferentiationError:
        return DifferentiationError(
            f"{self.name} is not known in hesse; keep that argument constant (hesse.stop_gradient), or give "
            "the rule with hesse.custom_derivative"
        )

    def outputs(self, shapes: tuple[tuple[int, ...], ...]) -> tuple[Output, ...]:
        return (Output(shapes[0]),)

    def call(self, *arrays: Any) -> Sequence[Any]:
        raise self._refused()

    def push(self, node: Apply, slot: int, tangent: Node) -> Node:
        raise self._refused()

    def pull(self, node: Apply, slot: int, cotangent: Node) -> Node:
        raise self._refused()


class UfuncRule(Rule):
    """An element-wise function of operands of one shape; None: a derivative that nobody knows."""

    def __init__(self, name: str, partials: Sequence[Partial | str | None]) -> None:
        super().__init__(name)
        self.partials = partials

    def outputs(self, shapes: tuple[tuple[int, ...], ...]) -> tuple[Output, ...]:
        return (Output(shapes[0]),)

    def call(self, *arrays: Any) -> Sequence[Any]:
        return [getattr(importlib.import_module("scipy.special"), self.name)(*arrays)]

    def is_active(self, node: Apply, slot: int) -> bool:
        return self.partials[slot] != CONSTANT

    def _factor(self, node: Apply, slot: int) -> Node:
        partial = self.partials[slot]
        if callable(partial):
            return partial(node, *node.operands)
        return foreign(_Unknown(f"scipy.special.{self.name}", slot), node)[0]

    def push(self, node: Apply, slot: int, tangent: Node) -> Node:
        axes = plain_axes(tangent.rank)
        own = axes[: node.rank]
        return einsum([self._factor(node, slot), tangent], [own, axes], axes, tangent.shape, tangent.shape)

    def pull(self, node: Apply, slot: int, cotangent: Node) -> Node:
        axes = plain_axes(cotangent.rank)
        own = axes[cotangent.rank - node.rank :]
        shape = cotangent.shape
        return einsum([self._factor(node, slot), cotangent], [own, axes], axes, shape, shape)


def _defined(name: str, *partials: Partial | str | None) -> Any:
    """The function on nodes that SciPy computes under this name."""
    rule = UfuncRule(name, partials)
    return lambda *nodes: foreign(rule, *nodes)[0]


def _handler(name: str, function: Callable[..., Node]) -> Callable[..., Expression]:
    def handler(*values: Any) -> Expression:
        return Expression(function(*broadcast_nodes(name, values)))

    return handler


def _psi(x: Node) -> Node:
    return table.digamma(x)


def _density(a: Node, x: Node) -> Node:
    """x^(a - 1) exp(-x) / gamma(a), the derivative of the incomplete gamma function."""
    return table.exp(table.xlogy(a - 1.0, x) - x - table.lgamma(a))


def _beta_density(a: Node, b: Node, x: Node) -> Node:
    """x^(a - 1) (1 - x)^(b - 1) / B(a, b)."""
    whole = table.lgamma(a) + table.lgamma(b) - table.lgamma(a + b)
    return table.exp(table.xlogy(a - 1.0, x) + table.xlogy(b - 1.0, 1.0 - x) - whole)


def _t_density(y: Node, df: Node, t: Node) -> Node:
    half = (df + 1.0) * 0.5
    factor = table.lgamma(half) - table.lgamma(df * 0.5) - table.log(df * math.pi) * 0.5
    return table.exp(factor - multiply(half, table.log1p(multiply(t, t) / df)))


jv: Callable[..., Node] = _defined("jv", None, lambda y, n, x: (jv(n - 1.0, x) - jv(n + 1.0, x)) * 0.5)
yv: Callable[..., Node] = _defined("yv", None, lambda y, n, x: (yv(n - 1.0, x) - yv(n + 1.0, x)) * 0.5)
iv: Callable[..., Node] = _defined("iv", None, lambda y, n, x: (iv(n - 1.0, x) + iv(n + 1.0, x)) * 0.5)
kv: Callable[..., Node] = _defined("kv", None, lambda y, n, x: (kv(n - 1.0, x) + kv(n + 1.0, x)) * -0.5)
ive: Callable[..., Node] = _defined(
    "ive",
    None,
    lambda y, n, x: (ive(n - 1.0, x) + ive(n + 1.0, x)) * 0.5 - multiply(table.sign(x), y),
)
kve: Callable[..., Node] = _defined(
    "kve", None, lambda y, n, x: y - (kve(n - 1.0, x) + kve(n + 1.0, x)) * 0.5
)
gamma = _defined("gamma", lambda y, x: multiply(y, _psi(x)))
beta = _defined(
    "beta",
    lambda y, a, b: multiply(y, _psi(a) - _psi(a + b)),
    lambda y, a, b: multiply(y, _psi(b) - _psi(a + b)),
)
expn: Callable[..., Node] = _defined("expn", None, lambda y, n, x: -expn(n - 1.0, x))
hyp1f1: Callable[..., Node] = _defined(
    "hyp1f1", None, None, lambda y, a, b, x: multiply(a / b, hyp1f1(a + 1.0, b + 1.0, x))
)
hyp2f1: Callable[..., Node] = _defined(
    "hyp2f1",
    None,
    None,
    None,
    lambda y, a, b, c, x: multiply(multiply(a, b) / c, hyp2f1(a + 1.0, b + 1.0, c + 1.0, x)),
)


def _box_cox(name: str, log: Callable[[Node], Node], shift: float) -> Any:
    """`((x + shift)^power - 1) / power`, the logarithm of `x + shift` where the power is 0."""

    def by_power(y: Node, x: Node, power: Node) -> Node:
        two, three = (uniform(order, x.shape) for order in (2.0, 3.0))
        return multiply(multiply(log(x), log(x)), hyp1f1(two, three, multiply(power, log(x)))) * 0.5

    return _defined(name, lambda y, x, power: table.exp(table.xlogy(power - 1.0, x + shift)), by_power)


FUNCTIONS: dict[str, Callable[..., Node]] = {
    "jv": jv,
    "jn": jv,
    "yv": yv,
    "yn": yv,
    "iv": iv,
    "kv": kv,
    "ive": ive,
    "kve": kve,
    "kn": kv,
    "hyp1f1": hyp1f1,
    "hyp2f1": hyp2f1,
    "boxcox": _box_cox("boxcox", table.log, 0.0),
    "boxcox1p": _box_cox("boxcox1p", table.log1p, 1.0),
    "gamma": gamma,
    "beta": beta,
    "expn": expn,
    "betaln": _defined(
        "betaln", lambda y, a, b: _psi(a) - _psi(a + b), lambda y, a, b: _psi(b) - _psi(a + b)
    ),
    "binom": _defined(
        "binom",
        lambda y, n, k: multiply(y, _psi(n + 1.0) - _psi(n - k + 1.0)),
        lambda y, n, k: multiply(y, _psi(n - k + 1.0) - _psi(k + 1.0)),
    ),
    "poch": _defined(
        "poch",
        lambda y, z, m: multiply(y, _psi(z + m) - _psi(z)),
        lambda y, z, m: multiply(y, _psi(z + m)),
    ),
    "gammasgn": _defined("gammasgn", CONSTANT),
    "rgamma": _defined("rgamma", lambda y, x: -multiply(y, _psi(x))),
    "gammainc": _defined("gammainc", None, lambda y, a, x: _density(a, x)),
    "gammaincc": _defined("gammaincc", None, lambda y, a, x: -_density(a, x)),
    "gammaincinv": _defined("gammaincinv", None, lambda y, a, p: reciprocal(_density(a, y))),
    "betainc": _defined("betainc", None, None, lambda y, a, b, x: _beta_density(a, b, x)),
    "betaincinv": _defined("betaincinv", None, None, lambda y, a, b, p: reciprocal(_beta_density(a, b, y))),
    "stdtr": _defined("stdtr", None, _t_density),
    "expi": _defined("expi", lambda y, x: table.exp(x) / x),
    "exp1": _defined("exp1", lambda y, x: -table.exp(-x) / x),
    "erfcx": _defined("erfcx", lambda y, x: multiply(x, y) * 2.0 - 2.0 / math.sqrt(math.pi)),
    "dawsn": _defined("dawsn", lambda y, x: 1.0 - multiply(x, y) * 2.0),
    "cosm1": _defined("cosm1", lambda y, x: -table.sin(x)),
}
"""Functions of `scipy.special` by the names of their ufuncs."""


def _of_order(function: Callable[..., Node], *orders: float) -> Callable[[Node], Node]:
    return lambda x: function(*[uniform(order, x.shape) for order in orders], x)


exprel = _of_order(hyp1f1, 1.0, 2.0)
"""`(exp(x) - 1) / x`."""


def _elliptic(first: float, m: Node) -> Node:
    """π/2 ₂F₁(a, 1/2; 1; m) up to m = 1; beyond, where the integral is not real, no number and no slope."""
    is_real = table.where(table.greater(m, 1.0), math.nan, 0.5 * math.pi)
    return multiply(_of_order(hyp2f1, first, 0.5, 1.0)(m), is_real)


BY_FORMULAS: dict[str, Callable[..., Node]] = {
    **{name: _of_order(jv, order) for name, order in {"j0": 0.0, "j1": 1.0}.items()},
    **{name: _of_order(iv, order) for name, order in {"i0": 0.0, "i1": 1.0}.items()},
    **{name: _of_order(ive, order) for name, order in {"i0e": 0.0, "i1e": 1.0}.items()},
    **{name: _of_order(kv, order) for name, order in {"k0": 0.0, "k1": 1.0}.items()},
    **{name: _of_order(kve, order) for name, order in {"k0e": 0.0, "k1e": 1.0}.items()},
    **{name: _of_order(yv, order) for name, order in {"y0": 0.0, "y1": 1.0}.items()},
    "exprel": exprel,
    "ellipk": lambda m: _elliptic(0.5, m),
    "ellipe": lambda m: _elliptic(-0.5, m),
    "logit": lambda x: table.log(x) - table.log1p(-x),
    "log_expit": lambda x: -table.softplus(-x),
    "exp10": lambda x: table.exp(x * math.log(10.0)),
    "entr": lambda x: -table.xlogy(x, x),
    "rel_entr": lambda x, y: table.xlogy(x, x) - table.xlogy(x, y),
    "kl_div": lambda x, y: table.xlogy(x, x) - table.xlogy(x, y) - x + y,
    "xlog1py": lambda x, y: multiply(x, table.log1p(_away_from_pole(x, y))),
    "pseudo_huber": lambda delta, r: multiply(
        multiply(delta, delta), table.sqrt(multiply(r / delta, r / delta) + 1.0) - 1.0
    ),
    "huber": lambda delta, r: table.where(
        table.less_equal(table.abs(r), delta),
        multiply(r, r) * 0.5,
        multiply(delta, table.abs(r) - delta * 0.5),
    ),
}
"""Functions of `scipy.special` that are formulas of rows and of those above."""


def _away_from_pole(x: Node, y: Node) -> Node:
    """`y`, but 0 where x = 0 and y = -1: there `x log(1 + y)` is 0."""
    both = table.logical_and(table.equal(x, 0.0), table.equal(y, -1.0))
    return table.where(both, 0.0, y)


NAMED.update({name: _handler(name, function) for name, function in {**FUNCTIONS, **BY_FORMULAS}.items()})
implements(np.i0)(_handler("i0", BY_FORMULAS["i0"]))
