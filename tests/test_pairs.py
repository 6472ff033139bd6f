"""Products of three values begin with the pair that others have too; values stay the same."""

import numpy as np
import pytest

import hesse
from hesse.backends.numpy.machine import NUMPY_MACHINE
from hesse.backends.numpy.pairs import _rewritten, _triples, with_shared_pairs
from hesse.plan import make_plan
from hesse.plan.program import Contract, Load, Program

RANDOM = np.random.default_rng(0)
W, R = RANDOM.normal(size=6), RANDOM.normal(size=9)
A, B = RANDOM.normal(size=(6, 9)), RANDOM.normal(size=(9, 6))


def products():
    """`w[i] r[n] a[i,n]` and `w[i] r[n] b[n,i]`, each of them begun with the large value."""
    items = (
        Load("w"),
        Load("r"),
        Load("a"),
        Load("b"),
        Contract(0, 2, (0,), (0, 1), (0, 1)),
        Contract(4, 1, (0, 1), (1,), (0, 1)),
        Contract(3, 1, (0, 1), (0,), (1, 0)),
        Contract(0, 6, (1,), (1, 0), (0, 1)),
    )
    shapes = (6,), (9,), (6, 9), (9, 6), (6, 9), (6, 9), (6, 9), (9, 6)
    return Program(items, shapes, (0.0,) * 4 + (54.0,) * 4, (5, 7), 8)


def evaluated(program):
    values = []
    given = {"w": W, "r": R, "a": A, "b": B}
    for item in program.instructions:
        if isinstance(item, Load):
            values.append(given[item.name])
        else:
            operands = values[item.left], list(item.left_labels), values[item.right], list(item.right_labels)
            values.append(np.einsum(*operands, list(item.labels)))
    assert [value.shape for value in values] == list(program.shapes)
    return [values[k] for k in program.results]


def test_a_pair_that_occurs_twice_is_multiplied_once():
    program = products()
    found = with_shared_pairs(program)
    assert found.total_flops == program.total_flops - 54
    for one, other in zip(evaluated(found), evaluated(program), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-14)


def test_operands_that_come_later_are_known_when_they_are_read():
    program = products()
    triples = _triples(program)
    orders = {k: (t.operands[2], t.operands[1], t.operands[0]) for k, t in triples.items()}
    for one, other in zip(evaluated(_rewritten(program, triples, orders)), evaluated(program), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-14)


@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_gradients_of_a_net_share_the_last_weights_times_the_residual(library):
    def loss(last, x, weight):
        hidden = np.tanh(x @ weight.T)
        return np.mean((np.sum(last * (1 - hidden**2) * hidden * np.sum(weight, 1), 1) - 1.0) ** 2)

    arguments = RANDOM.normal(size=12), RANDOM.normal(size=(40, 5)), RANDOM.normal(size=(12, 5))
    expected = hesse.grad(loss, argnums=(0, 1, 2), backend="jax")(*arguments)
    derivative = hesse.grad(loss, argnums=(0, 1, 2), backend=library)
    for _ in range(2):
        for one, other in zip(derivative(*arguments), expected, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-12)


def test_programs_without_such_pairs_stay_as_they_are():
    roots = hesse.grad(lambda x: np.sum(np.sin(x) * x)).explain(W).roots
    plan = make_plan(roots, NUMPY_MACHINE)
    assert with_shared_pairs(plan) is plan
