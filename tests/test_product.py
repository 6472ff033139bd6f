"""Products as values, against NumPy: the same numbers over other labels, of some operands, opened."""

import itertools
import random

import numpy as np
import pytest

from hesse.ir import (
    Axis,
    Einsum,
    Product,
    connected,
    constant_axis,
    einsum_of,
    first_labels,
    label_axis,
    labels_of,
    opened,
    plain_axes,
    variable,
)
from naive import evaluate

i, j, k, m = map(label_axis, range(4))
A, B, X = variable("A", (2, 3)), variable("B", (3, 4)), variable("x", (3,))
VALUES = {node.name: np.random.default_rng(k).standard_normal(node.shape) for k, node in enumerate((A, B, X))}


def test_label_sets():
    shifted = Axis(((0, 2), (3, 1)), 1)
    product = Product((A, X), ((i, j), (j,)), (shifted, i, constant_axis(0)), (2, 3, 5, 2, 7), 1.0)
    assert product.placed == {0, 3}
    assert product.inside == {0, 1}
    assert product.used == {0, 1, 3}
    assert product.core_labels == (0,)
    assert product.summed == [1, 2, 4]
    assert product.counted == [2, 4]
    assert product.sizes([4, 1]) == (7, 3)


def test_axes_say_their_labels():
    axes = [Axis(((2, 1), (5, 3)), 1), label_axis(0), constant_axis(4), label_axis(2)]
    assert labels_of(axes) == {0, 2, 5}
    assert first_labels(axes) == (2, 5, 0)


def test_a_node_is_a_product():
    node = einsum_of(Product((A, X), ((i, j), (j,)), (i,), (2, 3), 2.0), (2,))
    assert isinstance(node, Einsum)
    assert einsum_of(node.product, node.shape) is node
    assert (node.placed, node.inside, node.summed) == ({0}, {0, 1}, [1])
    assert einsum_of(A.product, A.shape) is A


def test_other_labels_are_the_same_node():
    product = Product((A, B), ((j, m), (m, i)), (j, i), (4, 2, 9, 3), 1.0)
    expected = VALUES["A"] @ VALUES["B"]
    for order in itertools.permutations([0, 1, 3]):
        renumbered = product.over(order)
        assert renumbered.ranges == tuple(product.ranges[label] for label in order)
        np.testing.assert_allclose(evaluate(einsum_of(renumbered, (2, 4)), VALUES), expected)
    assert product.compact() == product.over([0, 1, 3]) == product.without([2])
    assert product.without([]) is product
    with pytest.raises(KeyError):
        product.without([3])


def test_summed_labels_without_an_axis_count():
    product = Product((X,), ((i,),), (i,), (3, 5), 1.0)
    np.testing.assert_allclose(evaluate(einsum_of(product, (3,)), VALUES), 5 * VALUES["x"])
    np.testing.assert_allclose(evaluate(einsum_of(product.compact(), (3,)), VALUES), VALUES["x"])


def test_other_operands():
    product = Product((A, B, X), ((i, j), (j, k), (j,)), (i, k), (2, 3, 4), 3.0)
    a, b, x = VALUES["A"], VALUES["B"], VALUES["x"]
    shape = (2, 4)
    np.testing.assert_allclose(evaluate(einsum_of(product, shape), VALUES), 3 * a * x @ b)
    np.testing.assert_allclose(evaluate(einsum_of(product.only([0, 1]), shape), VALUES), 3 * a @ b)
    squared = product.times(X, (j,))
    np.testing.assert_allclose(evaluate(einsum_of(squared, shape), VALUES), 3 * a * x**2 @ b)
    replaced = product.with_operand(2, variable("z", (3,)))
    values = VALUES | {"z": np.ones(3)}
    np.testing.assert_allclose(evaluate(einsum_of(replaced, shape), values), 3 * a @ b)


def test_opened_products_have_the_factors_of_their_operands():
    inner = einsum_of(Product((B, X), ((i, j), (i,)), (i, j), (3, 4), 1.0), B.shape)
    outer = einsum_of(Product((A, inner), ((i, j), (j, k)), (i, k), (2, 3, 4), 1.0), (2, 4))
    assert isinstance(outer, Einsum)
    assert set(outer.operands) == {A, inner}
    flat = opened(outer, [outer.operands.index(inner)])
    assert set(flat.operands) == {A, B, X}
    np.testing.assert_allclose(evaluate(flat, VALUES), evaluate(outer, VALUES))


@pytest.mark.parametrize("seed", range(20))
def test_connected_tensors(seed):
    """Two tensors are in one group exactly when a walk over common labels leads from one to the other."""
    choice = random.Random(seed)
    tensors = [
        set(choice.sample(range(12), choice.choice([0, 1, 2, 2, 3]))) for _ in range(choice.randint(0, 9))
    ]
    groups = connected(tensors)
    assert sorted(k for members, _ in groups for k in members) == list(range(len(tensors)))
    assert groups == sorted(groups, key=lambda group: group[0])
    reach = np.array([[bool(a & b) or a is b for b in tensors] for a in tensors], dtype=int)
    reach = np.linalg.matrix_power(reach, len(tensors)) > 0 if tensors else reach
    for members, labels in groups:
        assert labels == set().union(*(tensors[k] for k in members))
        assert [k for k in range(len(tensors)) if reach[members[0]][k]] == members


def test_plain_axes_are_labels():
    assert labels_of(plain_axes(3, 2)) == {2, 3, 4}
