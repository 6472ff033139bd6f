"""Hessians layer by layer: the blocks of the whole one, and none of those between layers."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hesse
from hesse.errors import ArgumentError
from oracles import evaluate_jax, fast_jit

RANDOM = np.random.default_rng(0)
LAYERS = [
    {"W": RANDOM.normal(size=(3, 4)), "b": RANDOM.normal(size=4)},
    {"W": RANDOM.normal(size=(4, 2)), "b": RANDOM.normal(size=2)},
]
DATA = RANDOM.normal(size=(5, 3))


def loss(layers, x, xp=np):
    for layer in layers:
        x = xp.tanh(x @ layer["W"] + layer["b"])
    return xp.sum(x**2)


def test_layers_in_a_list():
    found = hesse.hessian(loss, blocks="layer")(LAYERS, DATA)
    expected = fast_jit(jax.hessian(lambda p: loss(p, DATA, jnp)))(LAYERS)
    assert list(found) == ["0", "1"]
    for k in (0, 1):
        for first in "Wb":
            for second in "Wb":
                np.testing.assert_allclose(
                    found[str(k)][first][second], expected[k][first][k][second], rtol=1e-10, atol=1e-12
                )


def test_names_of_modules():
    flat = {f"{k}.{name}": array for k, layer in enumerate(LAYERS) for name, array in layer.items()}

    def named(p, x):
        return loss([{"W": p["0.W"], "b": p["0.b"]}, {"W": p["1.W"], "b": p["1.b"]}], x)

    expected = hesse.hessian(loss, blocks="layer")(LAYERS, DATA)
    for _ in range(2):
        found = hesse.hessian(named, blocks="layer")(flat, DATA)
        assert found.keys() == expected.keys()
        np.testing.assert_allclose(found["1"]["W"]["b"], expected["1"]["W"]["b"])


def test_what_stands_alone_is_a_layer():
    found = hesse.hessian(lambda p: np.sum(p["a"] * p["b"] ** 2), blocks="layer")
    assert found({"a": np.ones(2), "b": np.ones(2)}).keys() == {"a", "b"}
    arguments = hesse.hessian(lambda u, v: np.sum(u**2 * v), argnums=(0, 1), blocks="layer")
    np.testing.assert_allclose(arguments(np.ones(2), np.ones(2))["u"]["u"]["u"], 2 * np.eye(2))


def test_structured_blocks():
    found = hesse.hessian(loss, blocks="layer", form="structured")(LAYERS, DATA)
    assert isinstance(found["1"]["W"]["W"], hesse.Structured)
    expected = hesse.hessian(loss)(LAYERS, DATA)[1]["W"][1]["W"]
    np.testing.assert_allclose(found["1"]["W"]["W"].dense(), expected)


def test_several_results_and_further_ones():
    def both(p):
        return {"sum": np.sum(p["a.w"] ** 2), "cube": p["a.b"] ** 3}, "note"

    found, note = hesse.hessian(both, blocks="layer", has_aux=True)({"a.w": np.ones(2), "a.b": 2.0})
    assert note == "note"
    np.testing.assert_allclose(found["sum"]["a"]["w"]["w"], 2 * np.eye(2))
    np.testing.assert_allclose(found["cube"]["a"]["b"]["b"], 12.0)


@pytest.mark.parametrize(
    "parameters",
    [{"a": 1.0, "a.a": 2.0}, {"a.b": 1.0, "a": {"b": 2.0}}, {0: {"w": 1.0}, "0": {"w": 2.0}}],
    ids=["alone", "container", "number"],
)
def test_no_block_is_lost_where_names_agree(parameters):
    def function(parameters):
        return sum(np.sum(leaf) ** 2 for leaf in jax.tree.leaves(list(parameters.values())))

    with pytest.raises(ArgumentError, match="the same layer and the same name"):
        hesse.hessian(function, blocks="layer")(parameters)


def test_other_blocks_are_refused():
    with pytest.raises(ArgumentError, match="blocks must be None"):
        hesse.hessian(loss, blocks="layers")


@pytest.mark.parametrize("order", [1, 2, 3, 4])
@pytest.mark.parametrize("mode", ["auto", "forward", "reverse"])
def test_diagonals_of_any_order(order, mode):
    def function(x, xp=np):
        return xp.sum(xp.tanh(x[:, None] * x[0] + xp.arange(1.0, 4.0)) ** 2)

    x = np.array([0.3, -0.4, 0.5])
    expected = lambda x: function(x, jnp)  # noqa: E731
    for _ in range(order):
        expected = jax.jacfwd(expected)
    diagonal = evaluate_jax(expected, x)[tuple([np.arange(3)] * order)]
    found = hesse.diagonal(function, order=order, mode=mode)
    for _ in range(2):
        np.testing.assert_allclose(found(x), diagonal, rtol=1e-9, atol=1e-11)


def test_a_batch_of_points_makes_nothing_larger():
    weights = RANDOM.normal(size=(1, 20)), RANDOM.normal(size=(20, 20)), RANDOM.normal(size=(20, 1))

    def net(x):
        first, second, third = weights
        return np.sum(np.tanh(np.tanh(x @ first) @ second) @ third)

    x = np.linspace(0.0, 1.0, 2000)[:, None]
    derivative = hesse.diagonal(net, order=4)
    program = derivative.explain(x)
    assert derivative(x).shape == (2000, 1)
    assert program.peak_bytes < 60 * x.nbytes * 20
