"""Exported Python code is executed and compared with the expression itself."""

from __future__ import annotations

import ast
import subprocess
import sys
import warnings
from types import CodeType
from typing import Any

import jax
import numpy as np
import pytest
import torch

import export_cases as cases
import hesse
import naive
from hesse.errors import ArgumentError, MissingKernelError
from hesse.export import export
from hesse.frontends.expression import Expression
from hesse.ir import broadcast, map_, topological
from hesse.ir import variable as make_variable
from test_random_graphs import STEPS, make_graph

ROWS = cases.rows()
ALL = [*cases.classics(), *ROWS, *cases.records(), *cases.affine(), *cases.constants()]
SOME = {
    *("quadratic_by_S_x", "norm_by_x_x", "logistic_by_x_x_x", "cross_entropy_by_W", "factorisation_by_U_U"),
    *("cubic_form_by_x", "powers_by_x", "batch", "condition", "rosenbrock_by_x_x", "convolved", "flipped"),
    *("solve", "solve_batch", "expm_by_X", "eigenvalues", "softmax_rows", "logsumexp_rows", "sorted"),
    "gathered",
    *("scattered", "cumulative_product_by_c", "product", "identity", "zero", "count_by_x", "table"),
}
FOR_JAX = [case for case in ALL if case in ROWS or case.name in SOME]
"""JAX compiles every operation for every shape, so not all cases are run."""


def _function(source: str) -> Any:
    namespace: dict[str, Any] = {}
    code: CodeType = compile(source, "<exported>", "exec")
    exec(code, namespace)
    return namespace["f"]


def _expected(case: cases.Case) -> np.ndarray:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        return case.value()


def _check(case: cases.Case, found: np.ndarray) -> None:
    expected = _expected(case)
    assert found.shape == expected.shape
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("case", ALL, ids=lambda case: case.name)
def test_numpy_code_agrees(case):
    arrays = case.arrays()
    copies = {name: array.copy() for name, array in arrays.items()}
    found = np.asarray(_function(export(case.expression.node, "numpy"))(**arrays, **case.sizes()))
    _check(case, found)
    for name, array in arrays.items():
        np.testing.assert_array_equal(array, copies[name], err_msg="an argument was changed")


@pytest.mark.parametrize("case", ALL, ids=lambda case: case.name)
def test_torch_code_agrees(case):
    tensors = {name: torch.as_tensor(array) for name, array in case.arrays().items()}
    found = _function(export(case.expression.node, "torch"))(**tensors, **case.sizes())
    _check(case, found.numpy())
    for name, array in case.arrays().items():
        np.testing.assert_array_equal(tensors[name].numpy(), array, err_msg="an argument was changed")


@pytest.mark.parametrize("case", FOR_JAX, ids=lambda case: case.name)
def test_jax_code_agrees(case):
    with jax.enable_x64(True):
        found = _function(export(case.expression.node, "jax"))(**case.arrays(), **case.sizes())
        assert isinstance(found, jax.Array)
        _check(case, np.asarray(found))


def _lines(source: str) -> list[str]:
    """The lines of the function after its argument checks, without documentation."""
    (function,) = [node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)]
    body = [ast.unparse(line) for line in function.body[1:] if not isinstance(line, ast.If)]
    return [line for line in body if "asarray" not in line and "as_tensor" not in line]


x, y, w = (hesse.variable(name, (size,)) for name, size in (("x", "n"), ("y", "m"), ("w", "n")))
A, S = hesse.variable("A", ("m", "n")), hesse.variable("S", ("n", "n"))


def test_products_are_written_with_at():
    residual = np.sum((A @ x - y) ** 2)
    assert _lines(export(residual.diff(x).node, "numpy"))[-1] == "return 2 * (A.T @ (A @ x - y))"
    assert _lines(export(residual.diff(x, x).node, "numpy"))[-1] == "return 2 * (A.T @ A)"
    quadratic = hesse.einsum("i,ij,j->", x, S, x)
    assert _lines(export(quadratic.node, "numpy"))[-1] == "return x @ (S @ x)"


def test_shared_terms_are_computed_once():
    probabilities = hesse.softmax(A @ x)
    (_, first, *_) = _lines(export(probabilities.diff(x).node, "torch"))
    assert first == "t1 = torch.softmax(A @ x, dim=-1)"


def test_vectors_are_multiplied_first():
    chain = hesse.einsum("ij,jk,k->i", S, S, x)
    assert _lines(export(chain.node, "numpy"))[-1] == "return S @ (S @ x)"


def test_numbers_and_scalars_stand_in_front():
    """Programs scale the smallest operand, and multiply it by scalars first."""
    a = hesse.variable("a", ())
    lines = _lines(export((3.0 * a * (A @ x) / np.sum(x)).node, "numpy"))
    assert lines[-1] == "return 3 * a * (A @ x) / np.sum(x)"


def test_small_arrays_are_multiplied_first():
    weighted = hesse.einsum("ij,i,i,ik->jk", A, y, np.exp(y), A)
    assert _lines(export(weighted.node, "numpy"))[-1] == "return A.T * (y * np.exp(y)) @ A"


def test_a_view_of_what_repeats_repeats_nothing():
    repeated = Expression(broadcast((x * x).node, ("m", "n"), [1]))
    assert _lines(export(hesse.einsum("ij->ji", np.exp(repeated)).node, "numpy"))[-1] == (
        "return np.broadcast_to(np.exp(x ** 2)[:, None], (n, m)).copy()"
    )


@pytest.mark.parametrize("case", ALL, ids=lambda case: case.name)
def test_python_code_has_no_dead_lines(case):
    for language in ("numpy", "torch", "jax"):
        tree = ast.parse(export(case.expression.node, language))
        for function in [node for node in tree.body if isinstance(node, ast.FunctionDef)]:
            names = [node for node in ast.walk(function) if isinstance(node, ast.Name)]
            stored = {name.id for name in names if isinstance(name.ctx, ast.Store)}
            assert stored <= {name.id for name in names if isinstance(name.ctx, ast.Load)}
        imported = {
            name.asname or name.name
            for node in tree.body
            if isinstance(node, ast.Import)
            for name in node.names
        }
        assert all(f"{name}." in ast.unparse(tree).split("def ", 1)[1] for name in imported)


def test_documentation_names_formula_and_shapes():
    source = export((A @ x).node, "numpy", "predict", "The Jacobian of A*x by x is A.")
    assert 'def predict(A, x):\n    """predict(A, x) = A*x\n' in source
    assert "The Jacobian of A*x by x is A." in source
    assert "A: matrix (m, n)" in source
    assert "Returns: vector (m)" in source


def test_arguments_are_checked():
    f = _function(export((A @ x - y).node, "numpy"))
    good = {"A": np.ones((2, 3)), "x": np.ones(3), "y": np.ones(2)}
    assert f(**good).shape == (2,)
    with pytest.raises(ValueError, match=r"A must have 2 axes \(m, n\), not shape \(3,\)"):
        f(**good | {"A": np.ones(3)})
    with pytest.raises(ValueError, match=r"x must have shape \(n,\) = \(3,\), not shape \(2,\)"):
        f(**good | {"x": np.ones(2)})
    square = _function(export(np.trace(S).node, "torch"))
    with pytest.raises(ValueError, match=r"S must have shape \(n, n\) = \(2, 2\), not shape \(2, 3\)"):
        square(torch.ones(2, 3))
    fixed = _function(export((2.0 * hesse.variable("v", (3,))).node, "numpy"))
    with pytest.raises(ValueError, match=r"v must have shape \(3,\), not shape \(2,\)"):
        fixed(np.ones(2))
    scalar = _function(export((2.0 * hesse.variable("s", ())).node, "numpy"))
    with pytest.raises(ValueError, match=r"s must have shape \(\), not shape \(1,\)"):
        scalar(np.ones(1))


@pytest.mark.parametrize("language", ["numpy", "torch", "jax"])
def test_large_arguments_do_not_overflow(language):
    v = hesse.variable("v", ("n",))
    loss = (
        np.sum(np.log(1.0 + np.exp(v))) + hesse.logsumexp(v) + np.sum(hesse.softmax(v) * hesse.log_softmax(v))
    )
    points = {"v": np.array([-800.0, 3.0, 900.0])}
    for expression in (loss, loss.diff(v), loss.diff(v, v)):
        f = _function(export(expression.node, language))
        with jax.enable_x64(True):
            argument = torch.as_tensor(points["v"]) if language == "torch" else points["v"]
            found = np.asarray(f(argument))
        np.testing.assert_allclose(found, expression.evaluate(**points), rtol=1e-12, atol=1e-300)


def test_torch_code_is_differentiable():
    loss = np.sum(hesse.softplus(A @ x)) + x @ x
    arrays = {"A": torch.randn(4, 3, dtype=torch.float64), "x": torch.randn(3, dtype=torch.float64)}
    gradient = _function(export(loss.diff(x).node, "torch"))
    found = torch.autograd.functional.jacobian(lambda v: gradient(arrays["A"], v), arrays["x"])
    torch.testing.assert_close(found, _function(export(loss.diff(x, x).node, "torch"))(**arrays))


def test_torch_code_keeps_the_type():
    hessian = np.sum(x**3).diff(x, x)
    assert _function(export(hessian.node, "torch"))(torch.ones(2)).dtype == torch.float32


def test_jax_code_can_be_jitted():
    hessian = _function(export(np.sum(np.exp(A @ x)).diff(x, x).node, "jax"))
    arrays = {"A": np.ones((4, 3)) / 3, "x": np.arange(3.0)}
    np.testing.assert_allclose(jax.jit(hessian)(**arrays), hessian(**arrays), rtol=1e-6)


def test_entries_that_do_not_exist_are_not_read_elsewhere():
    """A position outside of its row is an error, or nan, and not an entry of the next row."""
    rows = Expression(hesse.variable("M", (2, 3)).node)
    index = Expression(make_variable("i", (2,), kind="integer"))
    chosen = np.take_along_axis(rows, index[:, None], axis=1)
    arrays = {"M": np.arange(6.0).reshape(2, 3), "i": np.array([0, 3])}
    for language, convert in (("numpy", np.asarray), ("torch", torch.as_tensor)):
        with pytest.raises(IndexError, match="out of bounds"):
            _function(export(chosen.node, language))(**{k: convert(v) for k, v in arrays.items()})
    assert np.isnan(_function(export(chosen.node, "jax"))(**arrays)[1])
    arrays["i"][0] = 4
    assert np.isnan(_function(export(chosen.node, "jax"))(**arrays)[0])


def test_code_is_written_without_the_library():
    code = (
        "import sys, hesse\n"
        "for name in ('torch', 'jax'): sys.modules[name] = None\n"
        "formula = hesse.parse('sum(cbrt(x))')\n"
        "assert 'torch.copysign' in formula.to('torch') and 'jnp.cbrt' in formula.to('jax')\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_names_that_python_reserves():
    regular = hesse.variable("lambda", ()) * np.sum(
        hesse.variable("np", ("n",)) * hesse.variable("n", ("n",))
    )
    source = export(regular.node, "numpy", "def")
    assert "def def_(lambda_, n, np_):" in source
    namespace: dict[str, Any] = {}
    exec(source, namespace)
    assert namespace["def_"](2.0, np.ones(3), np.ones(3)) == 6.0


def test_bad_requests_are_refused():
    with pytest.raises(ArgumentError, match="no language 'cobol'; choose one of numpy, torch, jax"):
        export(x.node, "cobol")
    twice = hesse.variable("x", ("n",)) * np.sum(hesse.variable("x", ("m",)))
    with pytest.raises(ArgumentError, match="two variables are called x, of shapes"):
        export(twice.node, "numpy")
    large = np.random.default_rng(0).normal(size=(40, 40)) @ hesse.variable("v", (40,))
    with pytest.raises(ArgumentError, match=r"constant array of 1600 entries.*make it a variable"):
        export(large.node, "numpy")
    orders = Expression(map_("polygamma", x.node, x.node))
    with pytest.raises(MissingKernelError, match="polygamma only for a fixed order"):
        export(orders.node, "torch")
    batch = hesse.variable("B", (2, 3, 3))
    with pytest.raises(MissingKernelError, match="derivatives of expm of a batch of matrices"):
        export(hesse.expm(batch).diff(batch).node, "numpy")


@pytest.mark.parametrize("seed", range(60))
def test_random_expressions_agree(seed):
    graph = make_graph([*STEPS][seed % len(STEPS)], seed, 5)
    while {"adjugate", "minors"} & {getattr(node, "name", "") for node in topological([graph.output.node])}:
        seed += 60  # no language has a function for them
        graph = make_graph([*STEPS][seed % len(STEPS)], seed, 5)
    values = {term.node.name: term.value for term in graph.inputs}
    used = {v.name: values[v.name] for v in Expression(graph.output.node).variables}
    tensors = {key: torch.as_tensor(array) for key, array in used.items()}
    expected = naive.evaluate(graph.output.node, values)
    for language, arguments in (("numpy", used), ("torch", tensors)):
        found = np.asarray(_function(export(graph.output.node, language))(**arguments))
        np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-9)


def test_code_grows_with_the_depth_of_the_expression():
    def lines(depth: int) -> int:
        layer = x
        for _ in range(depth):
            layer = np.tanh(S @ layer)
        return len(export(layer.diff(x).node, "numpy").splitlines())

    assert lines(40) - lines(20) <= 1.2 * (lines(60) - lines(40))
    assert lines(60) < 600
