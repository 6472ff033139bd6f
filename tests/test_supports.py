"""Zeros around values: programs with boxes compute what they computed, and compute less."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hesse
from hesse.backends.target import target_named
from hesse.ir import Axis
from hesse.plan.program import (
    CallMap,
    Combine,
    Contract,
    Instruction,
    Load,
    Placed,
    Program,
    Reduce,
    Scale,
    View,
)
from hesse.plan.supports import trimmed
from oracles import assert_close

jax.config.update("jax_enable_x64", True)
RANDOM = np.random.default_rng(0)


def positions(axes: Sequence[Axis], point: Sequence[int]) -> tuple[int, ...]:
    return tuple(axis.offset + sum(stride * point[label] for label, stride in axis.terms) for axis in axes)


def value_of(item: Instruction, shape: tuple[int, ...], values: list[np.ndarray]) -> np.ndarray:
    """An instruction by its definition, entry by entry."""
    found = np.zeros(shape)
    match item:
        case Combine():
            for term in item.terms:
                for point in itertools.product(*map(range, term.ranges)):
                    entry = values[term.source][tuple(point[label] for label in term.labels)]
                    found[positions(term.output, point)] += term.factor * entry
        case Contract():
            found = np.einsum(
                values[item.left], item.left_labels, values[item.right], item.right_labels, item.labels
            )
        case View():
            for point in itertools.product(*map(range, item.ranges)):
                found[tuple(point[label] for label in item.labels)] = values[item.source][
                    positions(item.axes, point)
                ]
        case Scale():
            found = values[item.source] * item.factor
        case Reduce():
            found = values[item.source].sum(item.positions)
        case CallMap():
            found = np.cos(values[item.sources[0]])
    return found


def evaluated(program: Program, inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
    values: list[np.ndarray] = []
    for item, shape in zip(program.instructions, program.shapes, strict=True):
        values.append(inputs[item.name] if isinstance(item, Load) else value_of(item, shape, values))
        assert values[-1].shape == shape
    return [values[ref] for ref in program.results]


@st.composite
def programs(draw: st.DrawFn) -> tuple[Program, dict[str, np.ndarray]]:
    """Placed values, and what is made of them: products, views, sums, functions."""
    inputs = {"y": RANDOM.normal(size=(8, 9)), "x": RANDOM.normal(size=(2, 3))}
    made: list[tuple[Instruction, tuple[int, ...]]] = [(Load(k), v.shape) for k, v in inputs.items()]

    def pick() -> tuple[int, tuple[int, ...]]:
        matrices = [k for k, (_, shape) in enumerate(made) if len(shape) == 2]
        ref = draw(st.sampled_from(matrices[-3:]))
        return ref, made[ref][1]

    def placed() -> None:
        terms = []
        for _ in range(draw(st.integers(1, 3))):
            ref, sizes = (1, made[1][1]) if draw(st.booleans()) else pick()
            steps = [draw(st.sampled_from((1, -1, 2) if size <= 3 else (1,))) for size in sizes]
            reach = [abs(step) * (size - 1) + 1 for step, size in zip(steps, sizes, strict=True)]
            starts = [draw(st.integers(0, max(size - r, 0))) for size, r in zip((9, 12), reach, strict=True)]
            if any(start + r > size for start, r, size in zip(starts, reach, (9, 12), strict=True)):
                continue
            output = [
                Axis(((k, step),), start + (r - 1 if step < 0 else 0))
                for k, (step, start, r) in enumerate(zip(steps, starts, reach, strict=True))
            ]
            terms.append(Placed(ref, draw(st.sampled_from((1.0, -2.0))), (0, 1), tuple(output), sizes))
        if terms:
            made.append((Combine(tuple(terms), is_sum=True), (9, 12)))

    def product() -> None:
        left, right = pick(), pick()
        for a, b in itertools.product(range(2), repeat=2):
            if left[1][a] == right[1][b]:
                labels = [(0, 1), (1, 0)][a], [(0, 2), (2, 0)][b]
                kept = draw(st.sampled_from(((1, 2), (2, 1), (0, 1, 2), (0, 2))))
                sizes = {0: left[1][a], 1: left[1][1 - a], 2: right[1][1 - b]}
                item = Contract(left[0], right[0], *labels, kept)
                made.append((item, tuple(sizes[label] for label in kept)))
                return

    def view() -> None:
        ref, sizes = pick()
        starts = [draw(st.integers(0, size - 1)) for size in sizes]
        lengths = tuple(draw(st.integers(1, size - start)) for size, start in zip(sizes, starts, strict=True))
        axes = tuple(Axis(((k, 1),), start) for k, start in enumerate(starts))
        if draw(st.booleans()):
            row = Axis((), starts[0]), Axis(((0, 1),), starts[1])
            made.append((View(ref, row, (0,), lengths[1:]), lengths[1:]))
        else:
            made.append((View(ref, axes, (0, 1), lengths), lengths))

    def other() -> None:
        ref, sizes = pick()
        kind = draw(st.sampled_from((0, 0, 1, 1, 2)))
        if kind == 0:
            summed = draw(st.integers(0, 1))
            made.append((Reduce(ref, (summed,)), (sizes[1 - summed],)))
        else:
            made.append((Scale(ref, 3.0) if kind == 1 else CallMap("cos", (ref,)), sizes))

    placed()
    for _ in range(draw(st.integers(1, 7))):
        draw(st.sampled_from((placed, product, product, view, other)))()
    terms = []
    for ref, (_, shape) in enumerate(made):  # a sum reads boxes
        if ref > 1 and len(shape) <= 2:
            axes = tuple([Axis(((k, 1),), 0) for k in range(len(shape))] + [Axis((), 1)] * (2 - len(shape)))
            terms.append(Placed(ref, ref + 1.0, tuple(range(len(shape))), axes, shape))
    made.append((Combine(tuple(terms), is_sum=True), (12, 12)))
    results = draw(st.sampled_from(([len(made) - 1], [len(made) - 1, len(made) - 2])))
    items, shapes = zip(*made, strict=True)
    flops = tuple(float(math.prod(shape)) for shape in shapes)
    return Program(items, shapes, flops, tuple(results), len(items)), inputs


@settings(max_examples=300, deadline=None)
@given(programs())
def test_programs_compute_the_same(case: tuple[Program, dict[str, np.ndarray]]) -> None:
    program, inputs = case
    for found, expected in zip(evaluated(trimmed(program), inputs), evaluated(program, inputs), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("starts", [(0, 5), (0, 2), (4, 3)])
def test_products_of_boxes_that_meet_and_that_do_not(starts: tuple[int, int]) -> None:
    boxes = [
        Combine((Placed(0, 1.0, (0,), (Axis(((0, 1),), start),), (3,)),), is_sum=False) for start in starts
    ]
    items = Load("x"), *boxes, Contract(1, 2, (0,), (0,), (0,)), Scale(3, 2.0)
    last = Combine((Placed(4, 1.0, (0,), (Axis(((0, 1),), 1),), (9,)),), is_sum=False)
    program = Program((*items, last), ((3,), (9,), (9,), (9,), (9,), (10,)), (9.0,) * 6, (5,), 6)
    changed, inputs = trimmed(program), {"x": RANDOM.normal(size=3)}
    assert changed is not program
    np.testing.assert_allclose(evaluated(changed, inputs), evaluated(program, inputs))


ARMS = RANDOM.normal(size=(4, 3, 3))
SKIN = RANDOM.normal(size=(20, 4, 3))
PLACES = RANDOM.integers(0, 20, size=50)


def turned(xp: Any, bend: Any, spread: Any) -> Any:
    """A rotation about the first axis, then one about the last: twelve of its derivatives are not zero."""
    c, s, k, t, zero = xp.cos(bend), xp.sin(bend), xp.cos(spread), xp.sin(spread), bend * 0.0
    return xp.stack([xp.stack(row) for row in ((k, -t * c, t * s), (t, k * c, -k * s), (zero, s, c))])


def arms(xp: Any) -> Callable[[Any], Any]:
    """Two arms of two bones each: a bone moves with the angles of its own arm."""

    def function(theta: Any) -> Any:
        bones = []
        for first in (0, 2):
            upper = ARMS[first] @ turned(xp, theta[3 * first + 1], theta[3 * first + 2])
            bones += [upper, upper @ ARMS[first + 1] @ turned(xp, theta[3 * first + 3], theta[3 * first + 4])]
        return xp.einsum("bij,vbj->vi", xp.stack(bones), SKIN) @ turned(xp, theta[0], theta[11])

    return function


def picked(xp: Any) -> Callable[[Any], Any]:
    return lambda theta: arms(xp)(theta)[PLACES] * 2.0


def bent(xp: Any) -> Callable[[Any], Any]:
    """Functions of what has zeros around it need it whole."""
    return lambda theta: xp.exp(arms(xp)(theta)[:, 1]) + theta[3]


@pytest.mark.parametrize("backend", ["numpy", "jax"])
@pytest.mark.parametrize("make", [arms, picked, bent])
def test_derivatives(make: Callable[[Any], Callable[[Any], Any]], backend: str) -> None:
    theta = RANDOM.normal(size=12)
    found, expected = hesse.jacobian(make(np), backend=backend)(theta), jax.jacfwd(make(jnp))(theta)
    assert_close(np.asarray(found), np.asarray(expected))
    hessian = hesse.hessian(lambda theta: np.sum(make(np)(theta) ** 2), backend=backend)(theta)
    expected = jax.hessian(lambda theta: jnp.sum(make(jnp)(theta) ** 2))(theta)
    assert_close(np.asarray(hessian), np.asarray(expected))


def test_less_is_computed() -> None:
    """A bone of one arm has no columns for the angles of the other; without zeros nothing is changed."""
    theta = RANDOM.normal(size=12)
    executable = hesse.jacobian(arms(np)).explain(theta).executable
    target = target_named("numpy")
    assert target.passes(executable.straight).total_flops < 0.7 * executable.straight.total_flops
    dense = hesse.jacobian(lambda x: np.tanh(ARMS[0] @ x) @ ARMS[1]).explain(theta[:3]).executable.straight
    assert trimmed(dense) is dense
