"""Terms of long sums that differ only in the entries they read become one term; values stay the same."""

import numpy as np
import pytest
import torch

import hesse
from hesse.calculus.families import FEWEST, MOST_ENTRIES
from hesse.ir import topological

RANDOM = np.random.default_rng(0)
COUNT = 30
WEIGHTS = RANDOM.normal(size=COUNT)


def total(terms):
    return sum(terms, 0.0)


def sum_over_chain(x):
    return total(np.sin(x[k] * x[k + 1]) for k in range(COUNT))


def every_other_and_backwards(x):
    return total(np.exp(x[2 * k + 1] * x[2 * COUNT - 1 - k]) for k in range(COUNT))


def terms_that_occur_twice(x):
    again = [*range(COUNT), *range(5), 3]
    return total(np.tanh(x[k]) * x[k + 2] for k in again)


def two_families_that_alternate(x):
    return total(np.cos(x[k]) - np.exp(x[k + 1] * x[k]) for k in range(COUNT))


def windows_that_overlap(x):
    return total(np.sin(np.sum(x[k : k + 3] ** 2)) for k in range(COUNT))


def one_entry_in_all_terms(x):
    return total(np.sin(x[4] * x[k]) for k in range(COUNT))


def own_weights(x):
    return total(WEIGHTS[k] * np.sin(x[k] * x[k + 1]) for k in range(COUNT))


def terms_that_others_use(x):
    terms = [np.sin(x[k] * x[k + 1]) for k in range(COUNT)]
    return total(terms) * total(terms[3:]) + terms[4]


def a_term_is_missing(x):
    return total(np.sin(x[k] * x[k + 1]) for k in range(2 * COUNT) if k != COUNT - 3)


FUNCTIONS = [
    sum_over_chain,
    every_other_and_backwards,
    terms_that_occur_twice,
    two_families_that_alternate,
    windows_that_overlap,
    one_entry_in_all_terms,
    own_weights,
    terms_that_others_use,
    a_term_is_missing,
]


class Torch:
    """The functions above, of tensors."""

    sin, cos, exp, tanh, sum = torch.sin, torch.cos, torch.exp, torch.tanh, torch.sum


def by_torch(function, x, *vectors):
    """The value, and derivatives along vectors, by PyTorch."""
    written = type(function)(function.__code__, {**function.__globals__, "np": Torch})
    point = torch.tensor(x, requires_grad=True)
    found = [written(point)]
    (slope,) = torch.autograd.grad(found[0], point, create_graph=True)
    found.append(slope)
    for vector in vectors:
        (slope,) = torch.autograd.grad(slope @ torch.tensor(vector), point, create_graph=True)
        found.append(slope)
    return [one.detach().numpy() for one in found]


@pytest.mark.parametrize("function", FUNCTIONS)
def test_derivatives_are_those_of_the_loop(function):
    x, v, w = RANDOM.normal(size=(3, 2 * COUNT + 4)) / 2
    value, slope, product, third = by_torch(function, x, v, w)
    structured = hesse.hessian(function, form="structured")(x)
    found = {
        "value": (hesse.compile(function)(x), value),
        "gradient": (hesse.grad(function)(x), slope),
        "Hessian": (hesse.hessian(function)(x) @ v, product),
        "structured": (structured @ v, product),
        "structured again": (structured @ v, product),
        "product": (hesse.hvp(function)(x, v), product),
        "third": (hesse.derivative(function, order=3)(x) @ v @ w, third),
    }
    for name, (one, other) in found.items():
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-10, err_msg=name)


def node_count(function, *arguments):
    return len(topological(hesse.grad(function).explain(*arguments).roots))


def test_the_gradient_of_a_loop_does_not_grow_with_it():
    def loop(count):
        return lambda x: total(np.sin(x[k] * x[k + 1]) for k in range(count))

    x = RANDOM.normal(size=200)
    assert node_count(loop(100), x) == node_count(loop(FEWEST), x) < FEWEST


def test_long_terms_are_joined_in_pieces():
    width = MOST_ENTRIES // 20
    rows = RANDOM.normal(size=(40, width))

    def function(rows):
        return np.sum(total(np.tanh(rows[k]) for k in range(len(rows))) ** 2)

    values = np.tanh(rows)
    np.testing.assert_allclose(hesse.grad(function)(rows), 2 * values.sum(0) * (1 - values**2), atol=1e-9)
    assert node_count(function, rows) < 20
