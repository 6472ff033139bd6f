"""Views and sums as Python source: index expressions, reshapes and concatenations against the definition."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from hesse.backends.text import Dialect
from hesse.ir import Axis
from hesse.plan.program import Placed, View

DIALECT = Dialect("np", permute="transpose", total="np.sum", concatenate="np.concatenate")


@st.composite
def views(draw):
    """Axes whose labels are digits, perhaps with gaps between them, of an array that holds them."""
    axes, ranges, shape = [], [], []
    for _ in range(draw(st.integers(1, 3))):
        step, terms, reach = draw(st.sampled_from([1, 1, 1, 2, -1])), [], 0
        lowest = 0
        for _ in range(draw(st.integers(0, 3))):
            count = draw(st.integers(1, 4))
            terms.append((len(ranges), step))
            reach += abs(step) * (count - 1)
            lowest += min(step, 0) * (count - 1)
            ranges.append(count)
            step *= count + draw(st.sampled_from([0, 0, 1]))
        before, after = draw(st.integers(0, 3)), draw(st.integers(0, 3))
        axes.append(Axis(tuple(terms), before - lowest))
        shape.append(before + reach + 1 + after)
    labels = draw(st.permutations(range(len(ranges))))
    return View(0, tuple(axes), tuple(labels), tuple(ranges)), tuple(shape)


@given(views())
def test_views_read_what_their_axes_say(case):
    view, shape = case
    array = np.arange(np.prod(shape)).reshape(shape)
    text = DIALECT.indexed(view, "array", shape)
    if text is None:
        return
    found = eval(text, {"array": array})
    expected = np.empty([view.ranges[label] for label in view.labels], int)
    for position in np.ndindex(*expected.shape):
        at = dict(zip(view.labels, position, strict=True))
        index = (axis.offset + sum(stride * at[label] for label, stride in axis.terms) for axis in view.axes)
        expected[position] = array[tuple(index)]
    np.testing.assert_array_equal(found, expected)
    assert np.shares_memory(found, array) or not np.ndim(found)


def test_matrices_in_a_flat_array_are_slices():
    rows = View(0, (Axis(((0, 4), (1, 1)), 3),), (1, 0), (2, 4))
    assert DIALECT.indexed(rows, "x", (20,)) == "x[3:11].reshape(2, 4).T"
    part = View(0, (Axis(((0, 4), (1, 1)), 6),), (0, 1), (3, 2))  # columns 2 and 3 of rows 1 to 3
    assert DIALECT.indexed(part, "x", (16,)) == "x[4:].reshape(3, 4)[:, 2:]"
    window = View(0, (Axis(((0, 1), (1, 1)), 0),), (0, 1), (3, 2))
    assert DIALECT.indexed(window, "x", (4,)) is None


def test_terms_side_by_side_are_concatenated():
    matrix = Placed(0, 1.0, (0, 1), (Axis(((0, 2), (1, 1)), 1),), (3, 2))
    number = Placed(1, -2.0, (), (Axis((), 0),), ())
    named = [(matrix, "a"), (number, "b")]
    text = DIALECT.concatenated(named, (7,))
    a, b = np.arange(6.0).reshape(3, 2), np.array(5.0)
    np.testing.assert_array_equal(eval(text, {"np": np, "a": a, "b": b}), [-10.0, *range(6)])
    assert DIALECT.concatenated(named, (8,)) is None  # a place is left
    assert DIALECT.concatenated([*named, (number, "b")], (7,)) is None  # two on one place
    column = Placed(0, 1.0, (0,), (Axis(((0, 1),), 0), Axis((), 1)), (3,))
    rest = Placed(1, 1.0, (0,), (Axis(((0, 1),), 0), Axis((), 0)), (3,))
    both = DIALECT.concatenated([(column, "a"), (rest, "b")], (3, 2))
    np.testing.assert_array_equal(
        eval(both, {"np": np, "a": np.arange(3), "b": np.ones(3)}), [[1, 0], [1, 1], [1, 2]]
    )
