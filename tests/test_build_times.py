"""Programs with loops in Python are built in time that grows with their length, and searches end.

As in `test_depth`, counts are compared, never seconds; the programs are those of `benchmarks.build`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hesse
import naive
from benchmarks.build.programs import (
    Program,
    chain,
    cox,
    loop,
    many_arguments,
    perceptron,
    recurrence,
    recurrent,
    stacked,
    transformer,
)
from benchmarks.build.worker import leaves
from hesse.backends.executable import executable
from hesse.backends.numpy import NUMPY_MACHINE
from hesse.backends.target import target_named
from hesse.calculus import choose
from hesse.calculus import derivative as calculus_derivative
from hesse.calculus.modes import SEARCHES, Products, SearchEnded, derivatives
from hesse.cost import PLAIN_MACHINE
from hesse.ir import Add, Node, add, multiply, select, topological, variable
from hesse.ops.registry import elementwise
from hesse.plan import lower
from hesse.plan.lower import MOST_TERMS
from hesse.plan.program import Combine
from hesse.rewrite import simplify
from oracles import assert_close, fast_jit
from test_depth import assert_linear, counts


def smoothing(steps: int) -> Program:
    return recurrence(steps, "gradient")


def derivative(program: Program, **options: Any) -> Any:
    make: Callable[..., Any] = hesse.grad if program.derivative == "gradient" else hesse.hessian
    return make(program.function(np), argnums=program.argnums, **options)


# Values


PROGRAMS = [
    cox(5),
    loop(30),
    stacked(20),
    stacked(3),
    *(recurrence(steps, kind) for steps in (5, 20) for kind in ("gradient", "Hessian")),
    recurrent(10),
    transformer(1),
    perceptron(),
    chain(40),
    many_arguments(5),
]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.title)
def test_the_programs_of_the_benchmark_have_the_derivatives_of_jax(program: Program) -> None:
    arguments = program.arguments()
    make = jax.grad if program.derivative == "gradient" else jax.hessian
    expected = leaves(fast_jit(make(program.function(jnp), argnums=program.argnums))(*arguments))
    found = derivative(program)
    for _ in range(2):
        for one, other in zip(leaves(found(*arguments)), expected, strict=True):
            assert_close(one, other, program.title)


# Growth


LENGTHS = (30, 60, 120)


@pytest.mark.parametrize("program", [loop, stacked, smoothing, recurrent])
def test_gradients_of_loops_grow_linearly(program: Callable[[int], Program]) -> None:
    assert_linear(LENGTHS, [counts(derivative(program(n)), *program(n).arguments()) for n in LENGTHS])


def test_hessians_of_recurrences_grow_with_their_states() -> None:
    """The tangent of a state is one vector, not as many entries as there were steps."""
    small, large = (
        counts(derivative(recurrence(n, "Hessian"), mode="forward"), *recurrence(n, "Hessian").arguments())
        for n in (30, 60)
    )
    assert large.nodes < 2.5 * small.nodes and large.calls < 2.5 * small.calls


# Sums


def test_a_multiple_of_a_sum_that_others_use_stays_a_multiple() -> None:
    a, b, c = (variable(name, (3,)) for name in "abc")
    state = a + b
    whole, following = simplify([state, state * 0.9 + c])
    assert isinstance(following, Add) and len(following.operands) == 2
    assert whole in topological([following])


def test_a_multiple_of_a_sum_that_nobody_else_uses_is_merged() -> None:
    a, b, c = (variable(name, (3,)) for name in "abc")
    (merged,) = simplify([(a + b) * 0.9 + c])
    assert merged is add([a * 0.9, b * 0.9, c], (3,))


def test_multiples_of_multiples_are_not_multiplied_out_without_end() -> None:
    """Of `0.9*(0.9*(… + x[1]) + x[2]) + …` only the innermost terms are."""
    x = variable("x", (200,))
    state = select(x, (0,))
    for k in range(1, 200):
        state = state * 0.9 + select(x, (k,))
    (result,) = simplify([state])
    assert sum(len(node.operands) for node in topological([result]) if isinstance(node, Add)) < 3 * 200
    values = {"x": np.random.default_rng(0).normal(size=200)}
    np.testing.assert_allclose(
        naive.evaluate(result, values), values["x"] @ 0.9 ** np.arange(199, -1, -1), rtol=1e-12
    )


@pytest.mark.parametrize("factor", [1.0, -2.0])
def test_what_cancels_is_merged_whoever_uses_it(factor: float) -> None:
    a, b, c = (variable(name, (3,)) for name in "abc")
    shared = a + b
    _, rest = simplify([shared, shared * factor + a * -factor + c])
    assert rest is add([b * factor, c], (3,))


def test_a_loss_and_its_gradient_compute_the_states_once() -> None:
    """Each step multiplies and adds once on the way up and once on the way down."""
    program = smoothing(50)
    explanation = hesse.value_and_grad(program.function(np)).explain(*program.arguments())
    sums = [item for item in explanation.program.instructions if isinstance(item, Combine)]
    assert sum(len(item.terms) for item in sums) < 6 * 50


def test_long_sums_are_computed_in_several_steps() -> None:
    count = 3 * MOST_TERMS + 7
    x = variable("x", (count,))
    entries = [select(x, (k,)) * (-1.0 if k % 3 else 2.0) for k in range(count)]
    program = lower([add(entries, ())], NUMPY_MACHINE)
    sums = [item for item in program.instructions if isinstance(item, Combine)]
    assert len(sums) == 4 and max(len(item.terms) for item in sums) == MOST_TERMS
    assert program.total_flops == lower([add(entries[:MOST_TERMS], ())], NUMPY_MACHINE).total_flops + sum(
        1 + (k % 3 == 0) for k in range(MOST_TERMS, count)
    )


def test_sums_of_thousands_of_terms_compile() -> None:
    """One expression of so many terms would end in Python's compiler."""
    count = 4000
    x = variable("x", (count,))
    total = add([select(x, (k,)) * (-1.0 if k % 2 else 2.0) for k in range(count)], ())
    values = np.random.default_rng(0).normal(size=count)
    signs = np.where(np.arange(count) % 2, -1.0, 2.0)
    for backend in ("numpy", "torch"):
        target = target_named(backend)
        run = executable([total], ["x"], target.dtype([np.dtype(np.float64)]), target)
        (found,) = run(*target.converted([values], [run.dtype]))
        np.testing.assert_allclose(float(found), signs @ values, rtol=1e-9)


def test_nothing_recurs_over_the_length_of_a_loop() -> None:
    program = recurrent(20)
    derivative(program)(*program.arguments())  # what is imported by the first call is
    program = recurrent(150)
    limit, depth = sys.getrecursionlimit(), 0
    frame = sys._getframe()
    while frame.f_back is not None:
        frame, depth = frame.f_back, depth + 1
    sys.setrecursionlimit(depth + 130)
    try:
        derivative(program)(*program.arguments())
    finally:
        sys.setrecursionlimit(limit)


# Searches


def likelihood_gradient(people: int) -> tuple[Node, Node]:
    """The gradient of Cox's likelihood, and the variable."""
    program = cox(people)
    shapes = [array.shape for array in program.arguments()]
    w, data = (hesse.variable(name, shape) for name, shape in zip("wX", shapes, strict=True))
    (likelihood,) = simplify([program.function(np)(w, data).node])
    return choose(likelihood, [w.node]).derivatives[0], w.node


def test_a_search_ends_where_it_costs_more_than_it_can_save(monkeypatch: pytest.MonkeyPatch) -> None:
    gradient, w = likelihood_gradient(6)
    searched = choose(gradient, [w])
    monkeypatch.setattr(calculus_derivative, "SEARCH_TERMS", 30)
    ended = choose(gradient, [w])
    assert set(SEARCHES) <= searched.estimates.keys()
    assert not set(SEARCHES) & ended.estimates.keys()
    assert ended.estimates.items() <= searched.estimates.items()
    monkeypatch.setattr(calculus_derivative, "OPERATIONS_PER_TERM", 1.0)  # as if it were a large program
    assert choose(gradient, [w]).estimates == searched.estimates


def test_a_search_makes_no_more_products_than_it_may() -> None:
    gradient, w = likelihood_gradient(6)
    made = Products(most_terms=10)
    with pytest.raises(SearchEnded):
        derivatives("cross-country", gradient, [w], made, PLAIN_MACHINE)
    assert len(made._products) <= 10


def test_forward_mode_by_many_variables_is_not_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = variable("x", (3,)), variable("y", (3,))
    output = elementwise("sin", multiply(x, y))
    monkeypatch.setattr(calculus_derivative, "MOST_PUSHED", 5)
    assert "forward" in choose(output, [x]).estimates
    assert "forward" not in choose(output, [x, y]).estimates
