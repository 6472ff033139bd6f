"""The public functions: shapes, arguments, dtypes, memory, caching, binding, self-checks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

import hesse
from hesse.errors import ArgumentError, DifferentiationError, ShapeError, TracingError
from hesse.ops.registry import ELEMENTWISE
from oracles import assert_close, evaluate_jax

generator = np.random.default_rng(3)
W, X, Y = generator.normal(size=3), generator.normal(size=(4, 3)), np.array([1.0, -1.0, -1.0, 1.0])
U, V = generator.normal(size=(2, 1)), generator.normal(size=(3, 1))
TARGET = generator.normal(size=(2, 3))


def loss(w: Any, X: Any, y: Any) -> Any:
    return np.sum(np.log(np.exp(-y * (X @ w)) + 1))


def jax_loss(w: Any, X: Any, y: Any) -> Any:
    return jnp.sum(jnp.log(jnp.exp(-y * (X @ w)) + 1))


def counted(f: Callable[..., Any]) -> tuple[Callable[..., Any], list[int]]:
    """The function, and a list that grows by one at each call."""
    calls: list[int] = []

    def counting(*arguments: Any) -> Any:
        calls.append(1)
        return f(*arguments)

    return counting, calls


class TestShapes:
    def test_output_axes_come_first_then_one_group_for_each_variable(self) -> None:
        def f(x: Any, y: Any) -> Any:
            return np.einsum("ij,k->kij", x, y) * np.sin(y)[:, None, None]

        x, y = np.ones((2, 5)), np.ones(3)
        assert hesse.jacobian(f)(x, y).shape == (3, 2, 5, 2, 5)
        assert hesse.jacobian(f, argnums=1)(x, y).shape == (3, 2, 5, 3)
        assert hesse.hessian(f)(x, y).shape == (3, 2, 5, 2, 5, 2, 5)
        blocks = hesse.hessian(f, argnums=(0, 1))(x, y)
        assert [[block.shape for block in row] for row in blocks] == [
            [(3, 2, 5, 2, 5, 2, 5), (3, 2, 5, 2, 5, 3)],
            [(3, 2, 5, 3, 2, 5), (3, 2, 5, 3, 3)],
        ]
        assert hesse.derivative(f, order=3, argnums=1)(x, y).shape == (3, 2, 5, 3, 3, 3)

    def test_the_gradient_has_the_shape_of_the_variable(self) -> None:
        for shape in [(), (1,), (3,), (2, 3), (2, 1, 2), (0,)]:
            assert hesse.grad(lambda x: np.sum(x * x))(np.ones(shape)).shape == shape

    def test_grad_needs_a_scalar(self) -> None:
        with pytest.raises(ArgumentError, match=r"scalar result.*\(2,\).*use jacobian"):
            hesse.grad(lambda x: x * x)(np.ones(2))


class TestArgnums:
    @pytest.mark.parametrize("argnums", [0, 1, (0,), (1,), (0, 1), (1, 0), (2, 0), -1])
    def test_blocks_are_those_of_jax(self, argnums: Any) -> None:
        arguments = (W, X[:2], Y[:2])
        expected = evaluate_jax(jax.hessian(jax_loss, argnums=argnums), *arguments)
        assert_close(hesse.hessian(loss, argnums=argnums)(*arguments), expected)
        gradient = evaluate_jax(jax.grad(jax_loss, argnums=argnums), *arguments)
        assert_close(hesse.grad(loss, argnums=argnums)(*arguments), gradient)

    def test_third_order_blocks_are_nested_three_deep(self) -> None:
        blocks = hesse.derivative(lambda x, y: x * x * np.sin(y), order=3, argnums=(0, 1))(0.5, 0.7)
        expected = [0.0, 2 * np.cos(0.7), 2 * np.cos(0.7), -2 * 0.5 * np.sin(0.7)]
        found = [blocks[0][0][0], blocks[0][0][1], blocks[1][0][0], blocks[0][1][1]]
        assert_close(tuple(found), tuple(expected))

    def test_a_block_is_the_mirror_of_its_transpose(self) -> None:
        def f(u: Any, v: Any) -> Any:
            return np.sum((TARGET - u @ v.T) ** 2) + np.sum(np.sin(u)) * np.sum(np.exp(v))

        (uu, uv), (vu, vv) = hesse.hessian(f, argnums=(0, 1))(U, V)
        np.testing.assert_array_equal(uv, np.moveaxis(vu, (0, 1), (2, 3)))
        for block in (uu, vv):
            assert_close(block, np.moveaxis(block, (0, 1), (2, 3)))
        swapped = hesse.hessian(f, argnums=(1, 0))(U, V)
        assert_close(swapped, ((vv, vu), (uv, uu)))

    @pytest.mark.parametrize(
        ("argnums", "message"),
        [
            (3, r"argnums 3 is out of range: .*3 arguments \(w, X, y\)"),
            ((0, -4), "argnums -4 is out of range"),
            ((), "argnums is empty"),
            ((0, 0), "names an argument twice"),
            ((0, -3), "names an argument twice"),
            (True, "must be an int or a tuple of ints"),
            ("w", "must be an int or a tuple of ints"),
        ],
    )
    def test_wrong_argnums(self, argnums: Any, message: str) -> None:
        with pytest.raises(ArgumentError, match=message):
            hesse.grad(loss, argnums=argnums)(W, X, Y)

    @pytest.mark.parametrize("order", [0, -1, 1.5, True, "2"])
    def test_wrong_orders(self, order: Any) -> None:
        with pytest.raises(ArgumentError, match="order must be an integer of at least 1"):
            hesse.derivative(loss, order=order)

    def test_wrong_mode(self) -> None:
        with pytest.raises(ArgumentError, match="mode must be 'auto' or one of 'forward'"):
            hesse.hessian(loss, mode="backward")


class TestProducts:
    direction = np.array([0.3, -1.0, 2.0])

    def test_value_and_grad(self) -> None:
        value, gradient = hesse.value_and_grad(loss)(W, X, Y)
        assert_close((value, gradient), evaluate_jax(jax.value_and_grad(jax_loss), W, X, Y))
        value, gradients = hesse.value_and_grad(loss, argnums=(1, 0))(W, X, Y)
        assert_close(value, loss(W, X, Y))
        assert_close(gradients, hesse.grad(loss, argnums=(1, 0))(W, X, Y))

    def test_value_and_grad_needs_a_scalar(self) -> None:
        with pytest.raises(ArgumentError, match="value_and_grad needs a function with a scalar result"):
            hesse.value_and_grad(lambda x: x)(W)

    def test_hvp_is_the_hessian_times_a_vector(self) -> None:
        expected = hesse.hessian(loss)(W, X, Y) @ self.direction
        assert_close(hesse.hvp(loss)(W, X, Y, self.direction), expected)
        by_X = hesse.hessian(loss, argnums=1)(W, X, Y)
        direction = np.cos(X)
        assert_close(hesse.hvp(loss, argnums=1)(W, X, Y, direction), np.tensordot(by_X, direction, 2))

    def test_jvp_is_the_jacobian_times_a_vector(self) -> None:
        def f(X: Any, w: Any) -> Any:
            return np.tanh(X @ w)

        expected = hesse.jacobian(f, argnums=1)(X, W) @ self.direction
        assert_close(hesse.jvp(f, argnums=1)(X, W, self.direction), expected)

    def test_vjp_is_a_vector_times_the_jacobian(self) -> None:
        def f(X: Any, w: Any) -> Any:
            return np.tanh(X @ w)

        weights = np.array([1.0, -2.0, 0.5, 0.0])
        expected = np.tensordot(weights, hesse.jacobian(f)(X, W), 1)
        assert_close(hesse.vjp(f)(X, W, weights), expected)

    def test_a_function_with_an_argument_named_like_the_direction(self) -> None:
        assert_close(hesse.jvp(lambda v: v * v)(np.array([1.0, 2.0]), np.array([1.0, 0.5])), [2.0, 2.0])
        assert_close(hesse.vjp(lambda u: u * u)(np.array([1.0, 2.0]), np.array([1.0, 0.5])), [2.0, 2.0])

    @pytest.mark.parametrize("product", [hesse.jvp, hesse.vjp, hesse.hvp])
    def test_directions_must_fit(self, product: Any) -> None:
        with pytest.raises(ArgumentError, match=r"has shape \(2, 2\), but .* has shape"):
            product(lambda x: np.sum(x * x))(np.ones(3), np.ones((2, 2)))
        with pytest.raises(ArgumentError, match=r"also takes [uv] after its arguments"):
            product(lambda x: np.sum(x * x))()

    @pytest.mark.parametrize("part", [hesse.diagonal, hesse.laplacian])
    def test_parts_of_one_hessian(self, part: Any) -> None:
        with pytest.raises(ArgumentError, match="argnums must be one int here"):
            part(lambda x: np.sum(x * x), argnums=(0,))


class TestNesting:
    def test_a_gradient_inside_a_traced_function(self) -> None:
        def g(x: Any) -> Any:
            return np.sum(np.sin(x) * x * x[0])

        def squared_length(x: Any) -> Any:
            return np.sum(hesse.grad(g)(x) ** 2)

        hessian, gradient = hesse.hessian(g)(W), hesse.grad(g)(W)
        assert_close(hesse.grad(squared_length)(W), 2 * hessian @ gradient)
        assert_close(squared_length(W), gradient @ gradient)

    def test_an_inner_function_may_close_over_outer_variables(self) -> None:
        def f(x: Any) -> Any:
            inner = hesse.grad(lambda y: np.sum(x * y * y))
            return np.sum(inner(np.sin(x)))

        assert_close(hesse.grad(f)(W), 2 * (np.sin(W) + W * np.cos(W)))

    def test_inner_and_outer_variables_of_one_name_stay_apart(self) -> None:
        """d/dx of x · d/dy (x + y) is 1; confusing the two perturbations gives 2."""

        def f(x: Any) -> Any:
            outer = x
            return x * hesse.grad(lambda x: outer + x)(np.ones(()))

        assert hesse.grad(f)(np.ones(())) == 1.0

    def test_hessian_products_and_jacobians_inside(self) -> None:
        def g(x: Any) -> Any:
            return np.sum(x**4)

        def f(x: Any) -> Any:
            jacobian = hesse.jacobian(lambda z: z**2)(x)
            return hesse.hvp(g)(x, x) + jacobian @ x + hesse.value_and_grad(g)(x)[1]

        assert_close(hesse.jacobian(f)(W), np.diag(36 * W**2 + 4 * W + 12 * W**2))

    def test_other_arguments_of_an_inner_derivative(self) -> None:
        def f(w: Any, X: Any) -> Any:
            return np.sum(hesse.grad(loss)(w, X, Y) ** 2)

        def reference(w: Any, X: Any) -> Any:
            return jnp.sum(jax.grad(jax_loss)(w, X, Y) ** 2)

        assert_close(hesse.grad(f, argnums=1)(W, X), evaluate_jax(jax.grad(reference, argnums=1), W, X))


class TestCalling:
    def test_arrays_of_a_closure_are_read_at_every_call(self) -> None:
        weights = np.array([1.0, 2.0, 3.0])
        gradient = hesse.grad(lambda x: np.sum(weights * x * x))
        first = gradient(W)
        weights[:] = 0.5
        assert_close(first, 2 * np.array([1.0, 2.0, 3.0]) * W)
        assert_close(gradient(W), W)

    def test_keyword_arguments(self) -> None:
        expected = hesse.hessian(loss)(W, X, Y)
        assert_close(hesse.hessian(loss)(W, y=Y, X=X), expected)
        assert_close(hesse.hessian(loss)(X=X, y=Y, w=W), expected)
        gradient = hesse.grad(lambda x, *, power: np.sum(x**power))
        assert_close(gradient(W, power=2.0), 2 * W)

    def test_positional_and_keyword_calls_share_nothing_wrong(self) -> None:
        derivative = hesse.grad(lambda a, b=1.0, c=1.0: a * b * b * c)
        a = np.array(2.0)
        assert derivative(a, 3.0) == 9.0
        assert derivative(a, c=3.0) == 3.0
        assert derivative(a, b=3.0) == 9.0
        assert derivative(a, 3.0, 2.0) == 18.0
        assert derivative(a) == 1.0

    def test_default_arguments(self) -> None:
        def f(x: Any, scale: float = 3.0, shift: Any = None) -> Any:
            assert shift is None
            return np.sum(scale * x * x)

        assert_close(hesse.grad(f)(W), 6 * W)
        assert_close(hesse.grad(f)(W, 2.0), 4 * W)
        assert_close(hesse.grad(f)(W, scale=np.array(2.0)), 4 * W)

    def test_variable_arguments(self) -> None:
        gradients = hesse.grad(lambda *parts: np.sum(parts[0] * parts[1]) * parts[2], argnums=(0, 2))
        first, third = gradients(W, W + 1, 2.0)
        assert_close((first, third), (2.0 * (W + 1), np.sum(W * (W + 1))))

    def test_variable_arguments_do_not_mix_with_named_ones(self) -> None:
        def f(x0: Any, x1: Any, *x: Any) -> Any:
            return x0 + 10 * x1 + 100 * x[0] * x[0] + 1000 * x[1]

        point = (1.0, 2.0, 3.0, 4.0)
        assert tuple(hesse.grad(f, argnums=(0, 1, 2, 3))(*point)) == (1.0, 10.0, 600.0, 1000.0)

    def test_variable_keywords(self) -> None:
        gradient = hesse.grad(lambda x, **rest: np.sum(x * rest["b"]) + np.sum(x * x * rest["a"]))
        assert_close(gradient(W, a=2.0, b=3.0), 3.0 + 4 * W)
        assert_close(gradient(W, b=3.0, a=2.0), 3.0 + 4 * W)

    def test_lists_numbers_and_scalars_are_arrays(self) -> None:
        gradient = hesse.grad(lambda x: np.sum(x * x))
        assert_close(gradient([1.0, 2.0]), [2.0, 4.0])
        assert gradient(3.0) == gradient(np.float64(3.0)) == gradient(np.array(3.0)) == 6.0

    def test_methods_partials_and_callables(self) -> None:
        class Model:
            def __init__(self, factor: float) -> None:
                self.factor = factor

            def energy(self, x: Any) -> Any:
                return np.sum(self.factor * x**2)

            def __call__(self, x: Any) -> Any:
                return self.energy(x)

        assert_close(hesse.grad(Model(2.0).energy)(W), 4 * W)
        assert_close(hesse.grad(Model(3.0))(W), 6 * W)
        assert_close(hesse.jacobian(np.sin)(W), np.diag(np.cos(W)))

    def test_functions_that_ignore_their_argument(self) -> None:
        assert_close(hesse.hessian(lambda x, y: np.sum(y))(W, W), np.zeros((3, 3)))
        assert_close(hesse.jacobian(lambda x: np.array([1.0, 2.0]))(W), np.zeros((2, 3)))
        assert_close(hesse.jacobian(lambda x: x)(W), np.eye(3))

    @pytest.mark.parametrize(
        ("result", "message"),
        [
            (lambda x: None, "returned None"),
            (lambda x: (x, "name"), r"result\[1\] of <lambda> is a str, which cannot be differentiated"),
            (lambda x: {"a": [x, object()]}, "a constant of type object"),
        ],
    )
    def test_results_must_be_arrays(self, result: Any, message: str) -> None:
        with pytest.raises(TracingError, match=message):
            hesse.jacobian(result)(W)

    def test_wrong_calls(self) -> None:
        with pytest.raises(ArgumentError, match=r"loss\(w: .*cannot be called like this.*missing"):
            hesse.grad(loss)(W, X)
        with pytest.raises(ArgumentError, match="expected a function, got int"):
            hesse.grad(3)  # type: ignore[arg-type]
        with pytest.raises(ArgumentError, match="argument x is a str, not an array"):
            hesse.grad(lambda x: x)("text")
        with pytest.raises(ArgumentError, match="argument x is a set, not an array"):
            hesse.grad(lambda x: x)({"a", "b"})
        with pytest.raises(ArgumentError, match="argument x is not an array of numbers"):
            hesse.grad(lambda x: x)([[1.0], [1.0, 2.0]])
        with pytest.raises(ArgumentError, match=r"argument x has dtype <U1"):
            hesse.grad(lambda x: x)(np.array(["a"]))
        with pytest.raises(ArgumentError, match=r"argument x has dtype object"):
            hesse.grad(lambda x: x)(np.array([None]))


class TestDtypes:
    def test_float32_stays_float32(self) -> None:
        w, X32, y = W.astype(np.float32), X.astype(np.float32), Y.astype(np.float32)
        value, gradient = hesse.value_and_grad(loss)(w, X32, y)
        assert value.dtype == gradient.dtype == np.float32
        for found in (
            hesse.hessian(loss)(w, X32, y),
            hesse.hvp(loss)(w, X32, y, w),
            hesse.hessian(loss).bind(X=X32, y=y)(w),
            hesse.hessian(
                lambda x: np.sum(np.sqrt(x * x + 2.0)) * np.linalg.norm(x) + x @ TARGET.T @ TARGET @ x
            )(w),
            hesse.jacobian(lambda x: np.linalg.inv(np.outer(x, x) + np.eye(3)))(w),
            hesse.jacobian(lambda x: np.sort(x)[np.array([0, 0, 1])] * np.arange(3))(w),
            hesse.jacobian(lambda x: x)(w),
            hesse.jacobian(lambda x: np.ones(2))(w),
            hesse.grad(lambda x: x * 2)(np.float32(1.0)),
        ):
            assert found.dtype == np.float32
        assert_close(hesse.hessian(loss)(w, X32, y), hesse.hessian(loss)(W, X, Y), tolerance=1e-6)

    def test_every_elementwise_function_keeps_float32(self) -> None:
        for name, row in ELEMENTWISE.items():
            points = [np.full(2, low / 2 + high / 2, np.float32) for low, high in row.sample]
            variables = [hesse.variable(f"x{k}", (2,)) for k in range(row.arity)]
            traced = type(variables[0])(hesse.ops.registry.elementwise(name, *(v.node for v in variables)))
            values = {f"x{k}": point for k, point in enumerate(points)}
            assert traced.evaluate(**values).dtype == np.float32, name

    def test_float16_is_computed_in_float32(self) -> None:
        assert hesse.grad(lambda x: np.sum(x * x))(W.astype(np.float16)).dtype == np.float32

    def test_mixed_precisions_give_the_larger_one(self) -> None:
        def f(x: Any, y: Any) -> Any:
            return np.sum(x * np.sin(y))

        first, second = hesse.grad(f, argnums=(0, 1))(W.astype(np.float32), W)
        assert first.dtype == second.dtype == np.float64
        assert_close(first, np.sin(W))

    def test_python_numbers_do_not_widen(self) -> None:
        gradient = hesse.grad(lambda x, scale: np.sum(scale * x * x))
        assert gradient(W.astype(np.float32), 3.0).dtype == np.float32
        assert gradient(W.astype(np.float32), 3).dtype == np.float32
        assert gradient(W.astype(np.float32), np.float64(3.0)).dtype == np.float64

    def test_integer_data_in_arithmetic(self) -> None:
        labels = np.array([0, 1, 1, 0])
        expected = hesse.hessian(loss)(W, X, 2.0 * labels - 1)
        assert_close(hesse.hessian(lambda w, X, y: loss(w, X, 2 * y - 1))(W, X, labels), expected)
        found = hesse.grad(lambda x, n: np.sum(x**n))(W.astype(np.float32), np.array([1, 2, 3]))
        assert found.dtype == np.float32
        assert_close(found, [1, 2 * W[1], 3 * W[2] ** 2], tolerance=1e-6)

    def test_integer_data_as_indices(self) -> None:
        def cross_entropy(logits: Any, labels: Any) -> Any:
            chosen = np.take_along_axis(hesse.log_softmax(logits), labels[:, None], axis=1)
            return -np.mean(chosen)

        def reference(logits: Any, labels: Any) -> Any:
            return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(logits), labels[:, None], axis=1))

        hessian = hesse.hessian(cross_entropy)
        for labels in (np.array([2, 0, 1, 1]), np.array([0, 0, -1, 1])):
            assert_close(hessian(X, labels), evaluate_jax(jax.hessian(reference), X, labels))

    @pytest.mark.parametrize("kind", [np.int8, np.int32, np.int64, np.uint8])
    def test_indices_of_any_integer_type(self, kind: Any) -> None:
        index = np.array([2, 0, 2], kind)
        expected = np.zeros((3, 3))
        expected[np.arange(3), index] = np.cos(W)[index]
        assert_close(hesse.jacobian(lambda x, i: np.sin(x)[i])(W, index), expected)

    def test_one_integer_argument_as_number_and_as_index(self) -> None:
        index = np.array([2, 0])
        found = hesse.grad(lambda x, i: np.sum(x[i] * i))(W, index)
        assert_close(found, [0.0, 0.0, 2.0])

    def test_boolean_data(self) -> None:
        mask = np.array([True, False, True])
        assert_close(hesse.grad(lambda x, m: np.sum(x * x * m))(W, mask), 2 * W * mask)
        assert_close(
            hesse.grad(lambda x, m: np.sum(np.where(m, x * x, x)))(W, mask), np.where(mask, 2 * W, 1)
        )
        assert_close(hesse.grad(lambda x, m: np.sum(x * x * ~m))(W, mask), 2 * W * ~mask)

    @pytest.mark.parametrize("point", [np.array([1, 2, 3]), 3, True, np.array([True])])
    def test_integers_and_booleans_are_no_variables(self, point: Any) -> None:
        with pytest.raises(
            DifferentiationError, match=r"cannot differentiate by x: its dtype is .*astype\(float\)"
        ):
            hesse.grad(lambda x: np.sum(x * x))(point)

    @pytest.mark.parametrize("position", [0, 1])
    def test_complex_arguments_are_refused(self, position: int) -> None:
        arguments: list[Any] = [W, W]
        arguments[position] = W + 1j
        with pytest.raises(DifferentiationError, match=f"argument {'xy'[position]} is complex"):
            hesse.grad(lambda x, y: np.sum(x * y))(*arguments)

    def test_complex_results_are_refused(self) -> None:
        with pytest.raises(TracingError, match="is complex; return real numbers"):
            hesse.grad(lambda x: np.sum(x * 1j))(W)


class TestBinding:
    def test_bound_equals_unbound(self) -> None:
        expected = hesse.hessian(loss)(W, X, Y)
        assert_close(hesse.hessian(loss).bind(X=X, y=Y)(W), expected)
        assert_close(hesse.hessian(loss).bind(y=Y)(W, X), expected)
        assert_close(hesse.hessian(loss).bind(y=Y)(X=X, w=W), expected)
        assert_close(hesse.hessian(loss).bind(w=W)(X, Y), expected)
        assert_close(hesse.hessian(loss).bind(w=W, X=X, y=Y)(), expected)
        blocks = hesse.hessian(loss, argnums=(0, 1))
        assert_close(blocks.bind(X=X, y=Y)(W), blocks(W, X, Y))
        assert_close(hesse.value_and_grad(loss).bind(X=X, y=Y)(W), hesse.value_and_grad(loss)(W, X, Y))

    def test_directions_may_be_bound_too(self) -> None:
        expected = hesse.hvp(loss)(W, X, Y, W + 1)
        assert_close(hesse.hvp(loss).bind(X=X, y=Y)(W, W + 1), expected)
        assert_close(hesse.hvp(loss).bind(X=X, y=Y, v=W + 1)(W), expected)

    def test_bound_indices_and_masks(self) -> None:
        def f(x: Any, index: Any, mask: Any) -> Any:
            return np.sum(np.where(mask, x[index] ** 2, index * x))

        index, mask = np.array([2, 0, 1]), np.array([True, False, True])
        expected = hesse.grad(f)(W, index, mask)
        assert_close(hesse.grad(f).bind(index=index, mask=mask)(W), expected)

    def test_what_depends_on_bound_data_only_is_computed_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        function, calls = counted(np.linalg.inv)
        monkeypatch.setattr(np.linalg, "inv", function)
        data = np.eye(3) + 0.1 * np.ones((3, 3))
        gradient = hesse.grad(lambda x, A: x @ hesse_inverse(A) @ x).bind(A=data)
        expected = 2 * np.linalg.solve(data, W)
        for _ in range(3):
            assert_close(gradient(W), expected)
        assert len(calls) == 1

    def test_bound_data_is_copied(self) -> None:
        data = X.copy()
        hessian = hesse.hessian(loss).bind(X=data, y=Y)
        data[...] = 0.0
        assert_close(hessian(W), hesse.hessian(loss)(W, X, Y))

    def test_other_shapes_of_the_free_arguments(self) -> None:
        gradient = hesse.grad(lambda x, a: np.sum(np.sin(x) * a)).bind(a=2.0)
        for point in (np.ones(2), np.ones((3, 1)), np.ones(())):
            assert_close(gradient(point), 2 * np.cos(point))

    def test_wrong_names_and_counts(self) -> None:
        with pytest.raises(ArgumentError, match="has no argument Z; it has w, X, y"):
            hesse.hessian(loss).bind(Z=X)
        with pytest.raises(ArgumentError, match="got 2 arguments for the free w"):
            hesse.hessian(loss).bind(X=X, y=Y)(W, W)


def hesse_inverse(a: Any) -> Any:
    """The inverse by the operation table, whose kernel looks the NumPy function up when it is called."""
    return type(a)(hesse.ops.linalg.inverse(a.node))


class TestCheck:
    def test_good_functions_pass(self) -> None:
        report = hesse.check(loss, W, X, Y, order=3)
        assert report.ok
        assert report
        assert [row.order for row in report.rows] == [1, 2, 3]
        assert [row.shape for row in report.rows] == [(3,), (3, 3), (3, 3, 3)]
        assert str(report).count(" ok") == 3
        assert "loss" in str(report)
        assert hesse.check(loss, W, X, Y, order=2, argnums=1).ok
        assert hesse.check(lambda x: np.tanh(x) * x[0], W, order=2, mode="forward").ok
        assert hesse.check(lambda x: np.sum(x * x), W.astype(np.float32)).ok

    @pytest.mark.parametrize("library", ["torch", "jax"])
    def test_arrays_of_other_libraries(self, library: str) -> None:
        module = torch if library == "torch" else jnp
        w = module.asarray(np.arange(1.0, 4.0))
        assert hesse.check(lambda x: module.sin(x * x[0]), w, order=2).ok
        assert hesse.check(lambda p, y: (module.exp(p["a"] * y).sum(), p["b"] ** 3), {"a": w, "b": w}, w).ok
        assert hesse.check(lambda x: (x**3).sum(), module.asarray(np.ones(2, np.float32)), order=2).ok

    def test_a_module_in_single_precision(self) -> None:
        """Its weights cannot be multiplied by arguments in double precision."""
        layer, x = torch.nn.Linear(3, 2), torch.ones(3)
        report = hesse.check(lambda x: torch.tanh(layer(x)).sum(), x, order=2)
        assert report.ok
        assert report.rows[0].tolerance == 1e-2
        with pytest.raises(ShapeError, match="do not broadcast"):
            hesse.check(lambda x: (x + torch.ones(4)).sum(), x)

    def test_a_wrong_rule_is_found(self, monkeypatch: pytest.MonkeyPatch) -> None:
        row = ELEMENTWISE["arctan"]
        right = row.partials[0]
        assert right is not None
        wrong = replace(row, partials=(lambda y, x: right(y, x) * 1.001,))
        monkeypatch.setitem(ELEMENTWISE, "arctan", wrong)
        report = hesse.check(lambda checked: np.sum(np.arctan(checked)), W)
        assert not report.ok
        assert not report
        assert "WRONG" in str(report)
        assert 1e-4 < report.rows[0].error < 1e-2

    def test_a_wrong_second_derivative_is_found(self) -> None:
        def f(x: Any) -> Any:
            """Its first derivative is right, and the second takes a part of it for a constant."""
            return np.sum(x * x) / 2 + np.sum(hesse.stop_gradient(x) * (x - hesse.stop_gradient(x)))

        report = hesse.check(f, W, order=2)
        assert not report.ok

    def test_nan_is_no_agreement(self) -> None:
        with np.errstate(all="ignore"):
            assert not hesse.check(lambda x: np.sum(np.sqrt(x)), np.array([0.0, 1.0])).ok

    def test_one_argument_at_a_time(self) -> None:
        with pytest.raises(ArgumentError, match="one argument to differentiate by at a time"):
            hesse.check(loss, W, X, Y, argnums=(0, 1))
        with pytest.raises(ArgumentError, match="order must be"):
            hesse.check(loss, W, X, Y, order=0)
        with pytest.raises(DifferentiationError, match="cannot differentiate by x"):
            hesse.check(lambda x: x, np.array([1, 2]))


class TestExplain:
    def test_every_field(self) -> None:
        explanation = hesse.hessian(loss).explain(W, X, Y)
        assert explanation.formula
        assert explanation.nodes > 3
        assert explanation.flops >= 2 * 4 * 3 * 3
        assert explanation.bytes > 8 * 9
        assert explanation.peak_bytes >= 8 * 9
        assert explanation.contractions
        assert all("->" in step and "by" in step for step in explanation.contractions)
        assert explanation.source.startswith("def program(")
        compile(explanation.source, "<source>", "exec")
        assert explanation.executable.dtype == np.float64
        printed = str(explanation)
        for part in ("formula", "nodes", "FLOPs", "bytes moved", "peak memory", "contractions", "source"):
            assert part in printed
        assert explanation.source.splitlines()[-1].strip() in printed

    def test_several_results_and_keywords(self) -> None:
        explanation = hesse.grad(loss, argnums=(0, 1)).explain(W, y=Y, X=X)
        assert len(explanation.formula.splitlines()) == 2
        assert explanation.executable.dtype == np.float64

    def test_without_products(self) -> None:
        explanation = hesse.hessian(lambda x: np.sum(x * x)).explain(W)
        assert explanation.contractions == ()
        assert "contractions   none" in str(explanation)


def test_a_captured_variable_is_not_the_argument_of_the_same_name() -> None:
    captured = hesse.variable("x", (3,))
    result = hesse.grad(lambda x: np.sum(x * captured))(np.ones(3))
    assert isinstance(result, hesse.Expression)
    np.testing.assert_array_equal(result.evaluate(x=np.arange(3.0)), np.arange(3.0))
