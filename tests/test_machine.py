"""What programs cost is said by a record of the target: another record, other programs, the same values."""

from __future__ import annotations

import inspect
import math
from dataclasses import fields
from typing import Any

import jax
import numpy as np
import pytest

import hesse
from hesse.backends.jax.machine import JaxMachine
from hesse.backends.numpy import NUMPY_MACHINE, NumpyMachine
from hesse.backends.numpy.target import NumpyTarget
from hesse.backends.target import BACKENDS, target_named
from hesse.backends.torch.machine import TorchMachine
from hesse.calculus import choose
from hesse.cost import Cost, Machine
from hesse.ir import Node, add, pairwise, variable
from hesse.ops.registry import elementwise
from hesse.plan import lower, make_plan
from hesse.plan.program import Combine, Contract
from oracles import assert_close

RANDOM = np.random.default_rng(8)


def test_time_is_in_operations() -> None:
    assert Cost(10.0, 3.0).time(Machine(entry_cost=2.0)) == 16.0
    assert Cost(10.0, 3.0).time(Machine(entry_cost=0.0)) == 10.0


def narrow_net() -> tuple[Node, Node]:
    """`C·sin(B·sin(A·x))` with four rows in the middle."""
    x = hesse.variable("x", (200,))
    A, B, C = (hesse.variable(*pair) for pair in (("A", (40, 200)), ("B", (4, 40)), ("C", (40, 4))))
    return (C @ np.sin(B @ np.sin(A @ x))).node, x.node


def test_the_choice_of_mode_depends_on_the_cost_of_memory() -> None:
    """`C·(B·A)` takes 128,000 operations and `(C·B)·A` 652,800, but the first scales the large matrix A."""
    output, x = narrow_net()
    modes = [
        choose(output, [x], tried=("forward", "reverse"), machine=Machine(entry_cost=cost)).mode
        for cost in (0.0, 1000.0)
    ]
    assert modes == ["forward", "reverse"]


def gram(rows: int) -> Node:
    a = variable("A", (rows, rows))
    return pairwise("ij,kj->ik", a, a)


@pytest.mark.parametrize(("smallest", "is_halved"), [(70, True), (71, False), (math.inf, False)])
def test_halves_are_counted_from_a_size_on(smallest: float, is_halved: bool) -> None:
    program = make_plan([gram(70)], Machine(smallest_halved=smallest, halved_share=0.75))
    (item,) = (item for item in program.instructions if isinstance(item, Contract))
    assert item.is_symmetric == is_halved
    assert program.total_flops == 2 * 70**3 * (0.75 if is_halved else 1.0)


@pytest.mark.parametrize("backend", ["torch", "jax"])
def test_other_libraries_compute_all_of_a_symmetric_product(backend: str) -> None:
    a = RANDOM.normal(size=(80, 80))
    explanation = hesse.hessian(lambda x: np.sum((a @ x) ** 2)).compile(backend).explain(np.ones(80))
    assert explanation.flops >= 2 * 80**3


def test_the_share_is_that_of_the_blocks() -> None:
    blocks = NUMPY_MACHINE.symmetric_blocks
    assert blocks * (blocks + 1) / 2 / blocks**2 == NUMPY_MACHINE.halved_share


def test_terms_are_added_one_by_one_from_a_size_on() -> None:
    a, b = variable("a", (10, 3)), variable("b", (3, 10))
    terms = [pairwise("ij,jk->ik", elementwise(name, a), b) for name in ("sin", "cos", "exp")]
    node = add(terms, (10, 10))
    counts = {
        large: sum(isinstance(item, Combine) for item in lower([node], Machine(large_sum=large)).instructions)
        for large in (100, 101)
    }
    assert counts == {100: 2, 101: 1}


def windows(x: Any, w: Any) -> Any:
    """Small blocks times vectors, and overlapping windows."""
    blocks = np.einsum("nij,nj->ni", np.reshape(x, (10, 2, 2)), np.reshape(w, (10, 2)))
    return np.sum(np.sin(blocks)) + np.sum(np.convolve(x, w, mode="valid") ** 3)


RECORDS: dict[str, Machine] = {
    "numpy": NumpyMachine(
        small_block=1,
        large_array=1,
        large_broadcast=1,
        short_axis=3,
        buffer_entries=256,
        least_saved=1,
        small_instruction=0,
        slice_entries=4,
        fewest_rows=1,
        smallest_slice=1,
    ),
    "torch": TorchMachine(small_matrix=0, launch_bytes=0.0),
    "jax": JaxMachine(short_sum=0, small_matrix=0, most_pieces=0),
}


@pytest.mark.parametrize("backend", RECORDS)
@pytest.mark.parametrize("order", [1, 2])
def test_another_record_gives_another_program_with_the_same_values(backend: str, order: int) -> None:
    x, w = RANDOM.normal(size=40), RANDOM.normal(size=20)
    derivative = hesse.derivative(windows, order=order)
    usual, other = derivative.compile(backend), derivative.compile(backend, machine=RECORDS[backend])
    assert_close(other(x, w), derivative(x, w))
    assert _written(usual, x, w) != _written(other, x, w)
    assert _written(usual, x, w) == _written(derivative.compile(backend), x, w)


def _written(derivative: hesse.Derivative, *arguments: np.ndarray) -> str:
    """The program as it is run: for JAX the operations, which the source only names."""
    explanation = derivative.explain(*arguments)
    if explanation.executable.target.name != "jax":
        return explanation.source
    return str(jax.make_jaxpr(explanation.executable.compiled.function)(*arguments))


@pytest.mark.parametrize("backend", BACKENDS)
def test_every_field_is_explained(backend: str) -> None:
    """One line after each field, but those that only have another value here."""
    record = type(target_named(backend).machine)
    for cls in record.__mro__[: record.__mro__.index(Machine)]:
        lines = inspect.getsource(cls).splitlines()
        inherited = {field.name for parent in cls.__bases__ for field in fields(parent)}
        for name in {*cls.__annotations__} - inherited:
            (at,) = (k for k, line in enumerate(lines) if line.startswith(f"    {name}: "))
            assert lines[at + 1].startswith('    """') and lines[at + 1].endswith('."""')


def test_records_are_what_targets_compare_by() -> None:
    target = target_named("numpy")
    assert target.configured(machine=NumpyMachine()) == target
    assert target.configured(machine=NumpyMachine(large_array=1)) != target


@pytest.mark.parametrize("shape", [(12,), (3, 4)])
def test_long_vectors_are_multiplied_without_blas(shape: tuple[int, ...]) -> None:
    """From a length on BLAS would wake threads, which then wait busily."""
    x, y = RANDOM.standard_normal((2, *shape))
    found = hesse.value_and_grad(lambda x, y: np.sum(x * y))
    for longest, is_left_to_blas in ((11, False), (12, True)):
        compiled = found.compile(NumpyTarget(NumpyMachine(longest_dot=longest)))
        assert ("dot(" in compiled.explain(x, y).source) is is_left_to_blas
        assert_close(compiled(x, y)[0], np.sum(x * y))
