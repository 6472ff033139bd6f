"""Pieces of products at the borders of a result, which are one product for JAX."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import hesse
from hesse.backends.jax import target
from hesse.backends.jax.runtime import is_looked_up
from hesse.plan import Program
from hesse.plan.program import Combine
from hesse.plan.rejoined import rejoined

jax.config.update("jax_enable_x64", True)


def convolution(before: int, after: int, stride: int = 1) -> Any:
    def f(x: Any, kernel: Any) -> Any:
        count = x.ndim - 1
        found = lax.conv_general_dilated(x[None], kernel, (stride,) * count, [(before, after)] * count)
        return jnp.tanh(found[0])

    return f


def data(*shapes: tuple[int, ...]) -> list[Any]:
    random = np.random.default_rng(0)
    return [jnp.asarray(random.normal(size=shape)) for shape in shapes]


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize(("before", "after"), [(0, 0), (1, 1), (2, 0), (0, 1), (3, 1)])
@pytest.mark.parametrize("shapes", [((2, 7), (3, 2, 3)), ((2, 6, 7), (2, 2, 3, 2))])
def test_jacobians_of_padded_convolutions(shapes: Any, before: int, after: int, stride: int) -> None:
    x, kernel = data(*shapes)
    f = convolution(before, after, stride)
    for k in range(2):
        np.testing.assert_allclose(
            hesse.jacobian(f, k)(x, kernel), jax.jacfwd(f, k)(x, kernel), atol=1e-12, err_msg=str(k)
        )


@pytest.mark.parametrize("shapes", [((2, 9), (3, 2, 3)), ((3, 8, 8), (3, 3, 3, 3))])
def test_borders_are_part_of_one_product(shapes: Any) -> None:
    x, kernel = data(*shapes)
    source = hesse.jacobian(convolution(1, 1)).explain(x, kernel).source
    (line,) = [line for line in source.splitlines() if "-1)" in line and "place" in line]
    assert line.count("((1, 0") == 1, line


def test_a_product_of_which_a_piece_is_missing_stays_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its other pieces would come with that one."""
    seen: list[Program] = []

    def noted(program: Program, is_found: Any) -> Program:
        seen.append(program)
        return rejoined(program, is_found)

    monkeypatch.setattr(target, "rejoined", noted)
    x, kernel = data((3, 8, 8), (3, 3, 3, 3))
    hesse.jacobian(convolution(1, 1))(x, kernel)
    (program,) = seen
    assert len(rejoined(program, is_looked_up).instructions) < len(program.instructions)
    assert rejoined(program, lambda *_: False) is program
    (ref,) = program.results
    total = program.instructions[ref]
    assert isinstance(total, Combine)
    for k, term in enumerate(total.terms):
        others = total.terms[:k] + total.terms[k + 1 :]
        double = replace(term, factor=2.0)
        moved = replace(term, output=(*term.output[:-1], term.output[-1]._replace(offset=1)))
        for other in ((), (double,), () if moved.output == term.output else (moved,)):
            items = list(program.instructions)
            items[ref] = replace(total, terms=(*others, *other))
            cut = replace(program, instructions=tuple(items))
            assert rejoined(cut, is_looked_up) is cut
