"""The order of axes in memory is known, and arrays are written over by results of the same order."""

import itertools
import re

import numpy as np
import pytest

import hesse
from hesse.backends.numpy.machine import NUMPY_MACHINE
from hesse.backends.numpy.orders import agreed
from hesse.backends.numpy.target import NumpyTarget
from hesse.backends.numpy.writer import NumpyWriter
from hesse.plan import make_plan

RANDOM = np.random.default_rng(0)
WIDTH, POINTS = 32, 500


def order_of(array):
    return tuple(sorted(range(array.ndim), key=lambda axis: -array.strides[axis]))


@pytest.mark.parametrize("count", [1, 2, 3])
def test_operations_choose_the_order_of_numpy(count):
    sizes = 3, 4, 5
    cubes = [
        np.empty([sizes[axis] for axis in order]).transpose(np.argsort(order))
        for order in itertools.permutations(range(3))
    ]
    for operands in itertools.product(cubes, repeat=count):
        result = sum(operands[1:], start=operands[0] * 1.0)
        if count == 3:  # the order of a sum of three is that of the sum of the first two and the third
            first = agreed([order_of(operands[0]), order_of(operands[1])], 3)
            expected = agreed([first, order_of(operands[2])], 3)
        else:
            expected = agreed(map(order_of, operands), 3)
        assert order_of(result) == expected


def test_axes_that_an_operand_does_not_have_say_nothing():
    cube, matrix = np.empty((5, 4, 3)).transpose(2, 0, 1), np.empty((4, 3)).T
    assert order_of(cube * matrix[:, None, :]) == agreed([order_of(cube), (2, 0)], 3)
    assert order_of(np.empty((3, 1)) * np.empty(4)) == agreed([(0,), (1,)], 2)


def loss(x, first, second, third):
    def net(x):
        return np.sum(np.tanh(np.tanh(x @ first.T) @ second.T) @ third)

    return np.sum(hesse.diagonal(net, order=4)(x) ** 2)


def test_values_are_where_they_are_expected():
    arrays = (
        RANDOM.uniform(size=(POINTS, 1)),
        RANDOM.normal(size=(WIDTH, 1)),
        RANDOM.normal(size=(WIDTH, WIDTH)) / WIDTH,
        RANDOM.normal(size=WIDTH),
    )
    explained = hesse.value_and_grad(loss, argnums=(1, 2, 3)).explain(*arrays)
    target = NumpyTarget()
    program = target.passes(make_plan(explained.roots, target.machine))
    writer = NumpyWriter(program, np.dtype(float), NUMPY_MACHINE, results_in_order=True)
    given = dict(zip(("x", "first", "second", "third"), arrays, strict=True))
    writer.written({name: name for name in given})

    state, matrices, reused = writer.namespace | given, 0, 0
    for line in writer.lines:
        exec(line, state)
        reused += "out=" in line
        made = re.match(r"t(\d+) = ", line)
        value = state[f"t{made[1]}"] if made else np.zeros(0)
        if value.ndim == 2 and min(value.shape) > 1:
            assert order_of(value) == writer.orders[int(made[1])], line
            matrices += 1
    assert matrices > 100
    assert reused > 10


def test_repeated_rows_that_are_added_to_lie_in_memory_as_rows():
    """A product that is written over them is in order, too."""

    def loss(x, a, v):
        waves = np.sin(x @ a)
        return np.sum(waves @ v) + np.sum(waves[:, :20] ** 3)

    x, a, v = RANDOM.normal(size=(100, 80)), RANDOM.normal(size=(80, 80)), RANDOM.normal(size=80)
    found = hesse.grad(loss)(x, a, v)
    slopes = np.broadcast_to(v, (100, 80)).copy()
    slopes[:, :20] += 3 * np.sin(x @ a)[:, :20] ** 2
    np.testing.assert_allclose(found, (np.cos(x @ a) * slopes) @ a.T, rtol=1e-10, atol=1e-10)
    assert found.flags.c_contiguous
