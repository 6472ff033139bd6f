"""Programs that `torch.compile` fuses: what it computes wrongly is noticed at the first call."""

import numpy as np
import pytest
import torch

import hesse
from hesse.backends.torch.fused import are_close


def loss(x):
    return torch.sum(torch.tanh(x) ** 2)


@pytest.fixture
def compiled(monkeypatch):
    """A compiler that changes results as a test says."""
    calls = []

    def compile_(function, change, **_):
        def changed(*arrays):
            calls.append(len(arrays))
            return tuple(map(change, function(*arrays)))

        return changed

    def use(change):
        monkeypatch.setattr(torch, "compile", lambda function, **_: compile_(function, change))
        return calls

    return use


def test_wrong_results_are_noticed(compiled):
    calls = compiled(lambda result: 2 * result)
    gradient = hesse.grad(loss).compile(backend="torch", fuse=True)
    x = torch.linspace(0.1, 1.0, 4, dtype=torch.float64)
    expected = torch.func.grad(loss)(x)
    with pytest.warns(UserWarning, match="computes something else"):
        torch.testing.assert_close(gradient(x), expected)
    torch.testing.assert_close(gradient(x + 1), torch.func.grad(loss)(x + 1))
    assert len(calls) == 1


def test_right_results_are_compared_once(compiled):
    calls = compiled(lambda result: result * (1 + 1e-9))
    gradient = hesse.grad(loss).compile(backend="torch", fuse=True)
    for shift in range(3):
        x = torch.linspace(0.1, 1.0, 4, dtype=torch.float64) + shift
        torch.testing.assert_close(gradient(x), torch.func.grad(loss)(x))
    assert len(calls) == 3


def test_what_is_close():
    values = torch.tensor([1.0, np.inf, np.nan, 0.0])
    assert are_close([values], [values.clone()])
    assert are_close([torch.zeros(3)], [torch.zeros(3)])
    assert not are_close([torch.zeros(3)], [torch.ones(3)])
    assert not are_close([torch.tensor([1.0, np.nan])], [torch.ones(2)])


def test_many_programs_are_fused(monkeypatch):
    whole = torch.compile
    monkeypatch.setattr(
        torch, "compile", lambda function, **options: whole(function, backend="eager", **options)
    )
    for count in range(2, 14):
        x = torch.linspace(0.1, 1.0, count, dtype=torch.float64)
        gradient = hesse.grad(loss).compile(backend="torch", fuse=True)
        torch.testing.assert_close(gradient(x), torch.func.grad(loss)(x))


@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated")
def test_views_of_flat_parameters_are_not_strided():
    """Fused programs have been wrong where a strided view read an intermediate value."""

    def of_flat(p, x):
        first, second = p[:12].reshape(3, 4), p[12:].reshape(4, 2, 2)
        heads = (x @ first).reshape(5, 2, 2)
        return torch.sum(torch.tanh(torch.einsum("bij,kij->bk", heads, second)) ** 2)

    generator = torch.Generator().manual_seed(0)
    p, x, v = (torch.randn(n, dtype=torch.float64, generator=generator) for n in ((28,), (5, 3), (28,)))
    product = hesse.hvp(lambda p: of_flat(p, x))
    source = str(product.explain(p, v))
    assert "affine_view" not in source and "place(" not in source
    expected = torch.func.hessian(lambda p: of_flat(p, x))(p) @ v
    torch.testing.assert_close(product(p, v), expected)
    plain = product.compile(backend="torch", graph=False)
    torch.testing.assert_close(plain(p, v), expected)
    torch.testing.assert_close(torch.vmap(lambda p: product(p, v))(torch.stack([p, p]))[1], expected)


@pytest.mark.filterwarnings("ignore:.torch.jit.script", "ignore:.torch._prims_common.check")
def test_blocks_are_placed_by_views_that_know_their_axes():
    """A compiler may give what is added to another order in memory than strides would know of."""

    def loss(x, weights):
        return torch.sum(torch.tanh(x @ weights) ** 2) + torch.sum(weights[1:, 0] * weights[:-1, 1] ** 2)

    generator = torch.Generator().manual_seed(0)
    arrays = [torch.randn(n, dtype=torch.float64, generator=generator) for n in ((4, 3), (3, 2))]
    numbers = (0, 1)
    expected = torch.func.hessian(loss, argnums=numbers)(*arrays)
    derivative = hesse.hessian(loss, argnums=numbers)
    source = derivative.explain(*arrays).source
    assert ".diagonal(" in source and "place(" not in source
    for made in (derivative, *(derivative.compile(backend="torch", fuse=fuse) for fuse in (False, True))):
        for _ in range(2):
            torch.testing.assert_close(made(*arrays), expected)
    mapped = torch.vmap(derivative, (0, None))(torch.stack([arrays[0], 2 * arrays[0]]), arrays[1])
    torch.testing.assert_close([[b[0] for b in row] for row in mapped], [list(row) for row in expected])
