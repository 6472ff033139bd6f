"""Derivatives of JAX functions under JAX's transformations, inside each other, of containers and modules."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental.ode import odeint

import hesse
from hesse.errors import ArgumentError, DifferentiationError
from oracles import assert_close

X = jnp.array([0.3, -0.7, 1.2])
Y = jnp.array([0.9, 0.4, -0.2])
ROWS = jnp.stack([X, Y])


def energy(x: Any) -> Any:
    return jnp.sum(jnp.tanh(x) ** 2 * x) + x[0] * x[1]


def coupled(a: Any, y: Any) -> Any:
    return jnp.sum(a * jnp.sin(y * a))


def agree(found: Any, expected: Any) -> None:
    """The same structure, and the same arrays."""
    assert jax.tree.structure(found) == jax.tree.structure(expected)
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        assert isinstance(one, jax.Array)
        assert one.dtype == other.dtype
        assert_close(one, other)


Operator = Callable[[Callable[..., Any]], Callable[..., Any]]


def trace_of(hessian: Operator) -> Operator:
    return lambda function: lambda x: jnp.trace(hessian(function)(x))


TRANSFORMED: dict[str, tuple[Callable[[Operator], Callable[..., Any]], tuple[Any, ...]]] = {
    "plain": (lambda hessian: hessian(energy), (X,)),
    "jit": (lambda hessian: jax.jit(hessian(energy)), (X,)),
    "vmap": (lambda hessian: jax.vmap(hessian(energy)), (ROWS,)),
    "jit of vmap": (lambda hessian: jax.jit(jax.vmap(hessian(energy))), (ROWS,)),
    "grad": (lambda hessian: jax.grad(lambda x: jnp.sum(jnp.sin(hessian(energy)(x)))), (X,)),
    "jacfwd": (lambda hessian: jax.jacfwd(hessian(energy)), (X,)),
    "of a jitted function": (lambda hessian: hessian(jax.jit(energy)), (X,)),
    "closure under jit": (lambda hessian: jax.jit(lambda a, x: hessian(lambda y: coupled(a, y))(x)), (X, Y)),
    "closure under vmap": (
        lambda hessian: jax.vmap(lambda a, x: hessian(lambda y: coupled(a, y))(x), (0, None)),
        (ROWS, Y),
    ),
    "closure under grad": (
        lambda hessian: jax.grad(lambda a: jnp.sum(hessian(lambda y: coupled(a, y))(Y))),
        (X,),
    ),
    "closure of a jitted function": (
        lambda hessian: jax.grad(lambda a: jnp.sum(hessian(jax.jit(lambda y: coupled(a, y)))(Y))),
        (X,),
    ),
    "closure of an intermediate value": (
        lambda hessian: jax.vmap(lambda a: hessian(jax.jit(lambda y: coupled(jnp.exp(a), y)))(Y)),
        (ROWS,),
    ),
    "a known value of a rule under vmap": (
        lambda hessian: jax.vmap(hessian(lambda x: energy(x) * jax.nn.relu(jnp.array(2.0)))),
        (ROWS,),
    ),
    "training on a laplacian": (
        lambda hessian: jax.grad(lambda w: trace_of(hessian)(lambda x: jnp.sum(jnp.tanh(w * x)))(X) ** 2),
        (Y,),
    ),
}


@pytest.mark.parametrize("name", TRANSFORMED)
def test_transformations_of_jax(name: str) -> None:
    made, arguments = TRANSFORMED[name]
    ours, expected = made(hesse.hessian), made(jax.hessian)(*arguments)
    agree(ours(*arguments), expected)
    agree(ours(*arguments), expected)  # the second call


def test_a_function_that_calls_hesse() -> None:
    """The program inside arrives as one call, and is the expression again from which it was made."""

    def ours(x: Any) -> Any:
        return jnp.sum(hesse.grad(lambda y: jnp.sum(y**4))(x) * x)

    agree(hesse.hessian(ours)(X), jnp.diag(48 * X**2))
    assert str(hesse.hessian(ours).explain(X).formula) == "48*diag(x.^2)"


INSIDE: dict[str, tuple[Callable[[Any, Any], Callable[..., Any]], tuple[Any, ...]]] = {
    "gradient": (lambda grad, _: lambda x: jnp.sum(grad(energy)(x) ** 2), (X,)),
    "closure": (lambda grad, _: lambda x: jnp.sum(grad(lambda y: coupled(x, y))(x) ** 2), (X,)),
    "laplacian": (lambda _, hessian: trace_of(hessian)(energy), (X,)),
    "of each entry": (
        lambda grad, _: lambda x: jnp.sum(jax.vmap(grad(lambda t: jnp.sin(t) * t))(x) ** 2),
        (X,),
    ),
    "twice": (lambda grad, _: lambda x: grad(lambda y: jnp.sum(grad(energy)(y) ** 2))(x) @ x, (X,)),
}


@pytest.mark.parametrize("name", INSIDE)
def test_hesse_inside_of_hesse(name: str) -> None:
    made, arguments = INSIDE[name]
    expected = jax.hessian(made(jax.grad, jax.hessian))(*arguments)
    agree(hesse.hessian(made(hesse.grad, hesse.hessian))(*arguments), expected)
    agree(hesse.hessian(made(jax.grad, jax.hessian))(*arguments), expected)  # JAX inside of hesse
    agree(jax.hessian(made(hesse.grad, hesse.hessian))(*arguments), expected)  # and the other way round


def test_programs_that_were_compiled_before() -> None:
    """A derivative that was called already is traced by its name, too; what is gone is inlined."""
    gradient = hesse.grad(energy)
    agree(gradient(X), jax.grad(energy)(X))
    expected = jax.hessian(lambda x: jnp.sum(jax.grad(energy)(x) ** 2))(X)
    agree(hesse.hessian(lambda x: jnp.sum(gradient(x) ** 2))(X), expected)
    kept = jax.jit(lambda x: hesse.grad(energy)(x))  # noqa: PLW0108  the derivative must not live on
    kept(X)
    gc.collect()
    agree(hesse.hessian(lambda x: jnp.sum(kept(x) ** 2))(X), expected)


PARAMETERS = {"w": jnp.ones((2, 3)) * 0.3, "b": [jnp.array([0.1, -0.2]), jnp.array(2.0)]}


def loss(p: Any, x: Any) -> Any:
    return jnp.sum(jnp.tanh(p["w"] @ x + p["b"][0]) ** 2) * p["b"][1]


def test_containers() -> None:
    agree(hesse.grad(loss)(PARAMETERS, X), jax.grad(loss)(PARAMETERS, X))
    agree(hesse.hessian(loss)(PARAMETERS, X), jax.hessian(loss)(PARAMETERS, X))
    agree(hesse.jacobian(loss, (0, 1))(PARAMETERS, X), jax.jacrev(loss, (0, 1))(PARAMETERS, X))
    agree(hesse.value_and_grad(loss)(PARAMETERS, X), jax.value_and_grad(loss)(PARAMETERS, X))
    agree(
        hesse.hvp(loss)(PARAMETERS, X, PARAMETERS),
        jax.jvp(lambda p: jax.grad(loss)(p, X), (PARAMETERS,), (PARAMETERS,))[1],
    )
    pair = lambda p: {"value": loss(p, X), "rows": p["w"] @ X}  # noqa: E731
    agree(hesse.jacobian(pair)(PARAMETERS), jax.jacrev(pair)(PARAMETERS))


def test_further_results() -> None:
    def function(x: Any) -> Any:
        return jnp.sum(x**2), {"half": x / 2, "name": "squares", "size": x.size}

    value, further = hesse.grad(function, has_aux=True)(X)
    agree(value, 2 * X)
    agree(further["half"], X / 2)
    assert (further["name"], further["size"]) == ("squares", 3)


def test_other_derivatives() -> None:
    hessian = jax.hessian(energy)(X)
    agree(hesse.diagonal(energy)(X), jnp.diag(hessian))
    agree(hesse.laplacian(energy)(X), jnp.trace(hessian))
    agree(hesse.jvp(energy)(X, Y), jax.jvp(energy, (X,), (Y,))[1])
    squares = lambda x: jnp.sin(x) ** 2  # noqa: E731
    agree(hesse.vjp(squares)(X, Y), jax.vjp(squares, X)[1](Y)[0])
    structured = hesse.hessian(lambda x: jnp.sum(jnp.exp(x)), form="structured")
    agree(jax.jit(lambda x: structured(x) @ Y)(X), jnp.exp(X) * Y)


def test_arrays_that_are_read() -> None:
    """Large arrays are inputs: another one in the same place is read, and no program is made for it."""
    matrix = jnp.asarray(np.random.default_rng(0).normal(size=(20, 3)))
    weights = np.random.default_rng(1).normal(size=20)

    def function(x: Any) -> Any:
        return jnp.sum(jnp.log1p(jnp.exp(matrix @ x)) * weights)

    hessian = hesse.hessian(function)
    agree(hessian(X), jax.hessian(function)(X))
    assert "s = sigmoid(matrix*x)" in str(hessian.explain(X).formula)
    matrix = matrix * 2
    agree(hessian(X), jax.hessian(function)(X))
    weights[:] = 1.0
    agree(hessian(X), jax.hessian(function)(X))


def test_values_that_are_needed() -> None:
    """Sizes, conditions and exponents join the signature."""

    def function(x: Any, count: Any, power: Any) -> Any:
        return jnp.sum(jnp.exp(x)[:count] ** power) + jnp.sum(jnp.zeros(count)) + (x[0] if count > 2 else 0.0)

    gradient = hesse.grad(function)
    for count in (2, 3, 2):
        agree(gradient(X, count, 2), jax.grad(function)(X, count, 2))


def test_whole_numbers_and_masks() -> None:
    def function(x: Any, mask: Any, step: Any) -> Any:
        return jnp.sum(jnp.where(mask, jnp.exp(x), x**3)) * step + jnp.sum(x**2) / (step % 2 + 1)

    for step in (jnp.array(2), jnp.array(5)):
        agree(hesse.hessian(function)(X, X > 0, step), jax.hessian(function)(X, X > 0, step))


def test_single_precision() -> None:
    x = X.astype(jnp.float32)
    found = hesse.hessian(energy)(x)
    assert found.dtype == jnp.float32
    assert_close(found, jax.hessian(energy)(X), tolerance=1e-6)
    with jax.enable_x64(False):
        scaled = hesse.hessian(lambda x, c: jnp.sum(c * energy(x) * 2.5))
        found = scaled(jnp.asarray(x), 2.0)
        assert found.dtype == jnp.float32
    assert_close(found, 5 * jax.hessian(energy)(X), tolerance=1e-6)


def test_functions_of_both_languages() -> None:
    """Functions written with NumPy's functions go on working with JAX arrays, and so do operators alone."""
    agree(hesse.hessian(lambda x: np.sum(np.exp(x)))(X), jnp.diag(jnp.exp(X)))
    agree(hesse.hessian(lambda x: x @ x)(X), 2 * jnp.eye(3))
    agree(
        hesse.hessian(lambda x: jnp.sum(hesse.softplus(x)))(X),
        jnp.diag(jax.nn.sigmoid(X) * jax.nn.sigmoid(-X)),
    )


def test_modules_of_equinox() -> None:
    equinox = pytest.importorskip("equinox")
    net = equinox.nn.MLP(3, "scalar", 4, 2, activation=jnp.tanh, key=jax.random.key(0))
    agree(hesse.hessian(net)(X), jax.hessian(net)(X))
    parameters, static = equinox.partition(net, equinox.is_array)

    def squared(p: Any) -> Any:
        return equinox.combine(p, static)(X) ** 2

    agree(hesse.grad(squared)(parameters), jax.grad(squared)(parameters))


def test_a_step_of_optax() -> None:
    optax = pytest.importorskip("optax")
    optimizer = optax.adam(0.1)

    def step(gradient: Any) -> Any:
        def one(p: Any, state: Any) -> Any:
            updates, state = optimizer.update(gradient(p, X), state)
            return optax.apply_updates(p, updates), state

        p, state = PARAMETERS, optimizer.init(PARAMETERS)
        for _ in range(3):
            p, state = jax.jit(one)(p, state)
        return p

    agree(step(hesse.grad(loss)), step(jax.grad(loss)))


def test_numbers_and_arrays_of_numpy() -> None:
    """A JAX function may be called with them, as JAX's own derivatives may; the results are JAX arrays."""
    agree(hesse.grad(jnp.sin)(1.0), jnp.cos(1.0))
    hessian = hesse.hessian(energy)
    for _ in range(2):
        agree(hessian(np.asarray(X)), jax.hessian(energy)(X))
    agree(hessian(X), jax.hessian(energy)(X))
    agree(hesse.grad(loss)(jax.tree.map(np.asarray, PARAMETERS), X), jax.grad(loss)(PARAMETERS, X))
    found = hesse.grad(energy, backend="jax")(np.asarray(X))
    assert isinstance(found, np.ndarray)
    assert_close(found, jax.grad(energy)(X))
    with pytest.raises(TypeError, match="Expression"):
        hesse.grad(energy, backend="numpy")(np.asarray(X))


def test_large_arrays_that_no_walk_finds() -> None:
    """The weights of a net of a library are inputs, not part of the program."""
    equinox = pytest.importorskip("equinox")
    layer = equinox.nn.Linear(3, 2000, key=jax.random.key(0))

    def function(x: Any) -> Any:
        return jnp.sum(jnp.tanh(layer(x)))

    hessian = hesse.hessian(function)
    agree(hessian(X), jax.hessian(function)(X))
    agree(hessian(Y), jax.hessian(function)(Y))
    assert len(hessian.explain(X).executable.inputs) >= 2  # x and the weights
    layer = equinox.nn.Linear(3, 2000, key=jax.random.key(1))
    agree(hessian(X), jax.hessian(function)(X))


def test_gradients_of_an_integrator() -> None:
    """A function of JAX with a rule for its gradient that closes over arrays."""

    def function(x: Any) -> Any:
        return jnp.sum(odeint(lambda y, t: jnp.sin(y) * t, x, jnp.array([0.0, 1.0]))[1])

    agree(hesse.grad(function)(X), jax.grad(function)(X))


def test_a_rule_that_closes_over_a_variable() -> None:
    def function(x: Any) -> Any:
        inner = jax.custom_vjp(lambda y: y * x)
        inner.defvjp(lambda y: (y * x, None), lambda _, g: (g,))
        return jnp.sum(inner(x**2))

    with pytest.raises(DifferentiationError, match="says nothing of a value it closes over"):
        hesse.grad(function)(X)


def test_models_that_are_replaced() -> None:
    """A program reads the arrays of the model that is there now, and of no other."""
    equinox = pytest.importorskip("equinox")
    layers = [equinox.nn.Linear(3, 1500, key=jax.random.key(seed)) for seed in range(3)]
    layer = layers[0]
    gradient = hesse.grad(lambda x: jnp.sum(jnp.tanh(layer(x))))
    for layer in layers:
        agree(gradient(X), jax.grad(lambda x: jnp.sum(jnp.tanh(layer(x))))(X))  # noqa: B023
        assert len(gradient.explain(X).executable.inputs) >= 2  # x and the weights


made: list[Any] = []


class Registered:
    """An object of a class that keeps all objects that it makes, as modules of equinox are."""

    def __new__(cls, *arguments: Any) -> Registered:
        made.append(super().__new__(cls))
        return made[-1]

    def __init__(self, weights: Any) -> None:
        self.weights = weights

    def __call__(self, x: Any) -> Any:
        return jnp.sum(jnp.tanh(self.weights * x) ** 2) * len(made)


def test_objects_are_copied_without_their_class() -> None:
    """A trace leaves nothing in tables of others."""
    net = Registered(Y)
    agree(hesse.hessian(net)(X), jax.hessian(net)(X))
    agree(hesse.grad(lambda x: net(x) + x[0])(X), jax.grad(lambda x: net(x) + x[0])(X))
    assert len(made) == 1


class Layer:
    """A container that only JAX knows, with a part of its structure that is no array."""

    def __init__(self, weights: Any, shift: Any, power: int) -> None:
        self.weights, self.shift, self.power = weights, shift, power

    def __call__(self, x: Any) -> Any:
        return jnp.tanh(self.weights @ x + self.shift) ** self.power


jax.tree_util.register_pytree_node(
    Layer,
    lambda layer: ((layer.weights, layer.shift), layer.power),
    lambda power, parts: Layer(*parts, power),
)


@pytest.mark.parametrize("power", [2, 3])
def test_classes_that_are_registered_with_jax_are_containers(power: int) -> None:
    layers = [Layer(jnp.outer(Y, X), X, power), Layer(jnp.outer(X, Y), None, power)]

    def loss(layers: list[Layer], x: Any) -> Any:
        return jnp.sum(layers[0](x) * (layers[1].weights @ x))

    def moved(layer: Layer) -> Layer:
        return Layer(layer.weights, X * layer.shift, layer.power)

    for operator, own in ((hesse.grad, jax.grad), (hesse.hessian, jax.hessian)):
        for point in (X, Y):
            agree(operator(loss)(layers, point), own(loss)(layers, point))
    agree(hesse.jacobian(moved)(layers[0]), jax.jacobian(moved)(layers[0]))


def test_classes_may_be_registered_after_they_were_met() -> None:
    class Late:
        def __init__(self, x: Any) -> None:
            self.x = x

    gradient = hesse.grad(lambda late: jnp.sum(late.x**3))
    with pytest.raises(ArgumentError, match="is a Late"):
        gradient(Late(X))
    jax.tree_util.register_pytree_node(Late, lambda late: ((late.x,), None), lambda _, parts: Late(*parts))
    agree(gradient(Late(X)).x, 3.0 * X**2)


def test_complex_values_show_that_a_function_is_one_of_jax() -> None:
    waves = lambda t: jnp.abs(jnp.sum(jnp.exp(1j * t * X)))  # noqa: E731
    agree(hesse.derivative(waves, 2)(0.4), jax.grad(jax.grad(waves))(0.4))
