"""Laws for sizes that are used as numbers: the law, its values, and where it must not fire."""

from __future__ import annotations

import numpy as np
import pytest

import hesse
import naive
from hesse.ir import Node, bind_sizes
from hesse.rewrite import simplify, size_rules
from hesse.rewrite.rules import Rule

SIZES = {"m": 4, "n": 3}
x = hesse.variable("x", ("n",))
y = hesse.variable("y", ("m",))
m, n = np.sum(y * 0 + 1), np.sum(x * 0 + 1)

EXAMPLES = [
    (size_rules.reciprocal_of_size, 1 / (2 * n), 0.5 * (1 / n), (1 / n, 1 / x, 1 / (n + 1), n * x)),
    (size_rules.reciprocal_of_size, 1 / (n * m), (1 / n) * (1 / m), ()),
    (size_rules.reciprocal_of_size, 1 / (-4 * n * x), -0.25 * (1 / n) * (1 / x), ()),
    (size_rules.size_over_itself, n * (1 / n) * x, x, (n * (1 / m) * x, n * x, x * (1 / n), x / x)),
    (size_rules.size_over_itself, n * m * (1 / n) * x, m * x, ()),
]
IDS = [f"{before}" for _, before, _, _ in EXAMPLES]


def value(node: Node) -> np.ndarray:
    generator = np.random.default_rng(0)
    arrays = {"x": generator.uniform(1, 2, 3), "y": generator.uniform(1, 2, 4)}
    return np.asarray(naive.evaluate(bind_sizes([node], SIZES)[0], arrays))


@pytest.mark.parametrize(("rule", "before", "after", "misses"), EXAMPLES, ids=IDS)
def test_size_rules(
    rule: Rule, before: hesse.Expression, after: hesse.Expression, misses: tuple[hesse.Expression, ...]
) -> None:
    found = rule(before.node)
    assert found is not None
    assert found is after.node, f"{hesse.Expression(found)} instead of {after}"
    np.testing.assert_allclose(value(found), value(before.node), rtol=1e-12)
    assert simplify([before.node]) == simplify([after.node])
    for miss in misses:
        assert rule(miss.node) is None, str(miss)


def test_every_rule_has_an_example() -> None:
    assert {example[0] for example in EXAMPLES} == set(size_rules.SIZE_RULES)
