"""Products are computed in the orientation in which they are read; results stay the same."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

import hesse
from hesse.backends.executable import executable
from hesse.backends.target import target_named
from hesse.ir import Variable, topological
from hesse.plan import make_plan
from hesse.plan.layout import aligned
from hesse.plan.program import CallMap, Combine, Contract, Scale, View
from oracles import TOLERANCE, evaluate_jax, nested_jax, relative_error

RANDOM = np.random.default_rng(0)
WIDTH, COUNT = 40, 60


def net(x, first, second, third):
    return np.sum(np.tanh(np.tanh(np.tanh(x @ first.T) @ second) @ third.T))


def gradient_of_a_laplacian(x, first, second, third):
    inner = hesse.diagonal(lambda x: net(x, first, second, third))(x)
    return np.sum(inner**2)


ARRAYS = (
    RANDOM.normal(size=(COUNT, WIDTH)),
    *(RANDOM.normal(size=(WIDTH, WIDTH)) / WIDTH**0.5 for _ in range(3)),
)
FUNCTIONS = {
    "gradient": hesse.grad(net, argnums=(0, 1, 2, 3)),
    "Hessian-vector product": hesse.hvp(net, argnums=1),
    "gradient of a Laplacian": hesse.grad(gradient_of_a_laplacian, argnums=(1, 2, 3)),
}


def mixed_entries(program):
    """Entries of element-wise operations on matrices of which some lie by rows and some by columns."""
    by_columns, mixed = {}, 0
    for ref, item in enumerate(program.instructions):
        shape = program.shapes[ref]
        found = []
        match item:
            case View() if len(shape) == 2 and [axis.label for axis in item.axes] == [1, 0]:
                found = [not by_columns[item.source]]
            case Contract() if set(item.labels) == {*item.left_labels, *item.right_labels}:
                pairs = ((item.left, item.left_labels), (item.right, item.right_labels))
                found = [by_columns[k] ^ (a != item.labels) for k, a in pairs if len(a) == 2 == len(shape)]
            case Scale() | CallMap():
                sources = (item.source,) if isinstance(item, Scale) else item.sources
                found = [by_columns[k] for k in sources if program.shapes[k] == shape and len(shape) == 2]
            case Combine():
                for term in item.terms:
                    labels = tuple(axis.label for axis in term.output)
                    if len(term.labels) == 2 and sorted(term.labels) == sorted(labels):
                        found.append(by_columns[term.source] ^ (term.labels != labels))
        mixed += np.prod(shape) if len(set(found)) == 2 else 0
        by_columns[ref] = bool(found) and found[0]
    return mixed


@pytest.mark.parametrize("name", FUNCTIONS)
def test_nothing_is_read_by_rows_and_by_columns_at_once(name):
    arguments = ARRAYS if name != "Hessian-vector product" else (*ARRAYS, ARRAYS[1])
    roots = FUNCTIONS[name].explain(*arguments).roots
    plain = make_plan(roots, target_named("torch").machine)
    turned = aligned(plain)

    assert mixed_entries(turned) <= mixed_entries(plain) / 2
    assert sum(turned.flops) == sum(plain.flops)
    assert [turned.shapes[k] for k in turned.results] == [plain.shapes[k] for k in plain.results]


@pytest.mark.parametrize("library", ["numpy", "torch"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_values_stay_the_same(name, library):
    arguments = ARRAYS if name != "Hessian-vector product" else (*ARRAYS, ARRAYS[1])
    derivative = FUNCTIONS[name]
    roots = derivative.explain(*arguments).roots
    names = [v.name for v in {n for root in roots for n in _variables(root)}]
    by_name = dict(zip(("x", "first", "second", "third", "v"), arguments, strict=False))
    jax = executable(roots, names, np.dtype(float), target_named("jax"))  # by a rule of its own
    found = derivative.compile(backend=library)(*arguments)
    expected = jax(*(by_name[key] for key in names))
    for one, other in zip(found if isinstance(found, tuple) else (found,), expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-12)


def test_terms_of_sums_may_fill_a_row_or_lie_along_a_diagonal():
    def product_and_row(x):
        return np.tanh(np.sum(np.sin(x))) + x[3] * np.sum(np.cos(x))

    x = RANDOM.normal(size=WIDTH)
    slope = 1 - np.tanh(np.sum(np.sin(x))) ** 2
    curvature = -2 * np.tanh(np.sum(np.sin(x))) * slope
    row = np.zeros((WIDTH, WIDTH))
    row[3] = -np.sin(x)
    diagonal = np.diag(-slope * np.sin(x) - x[3] * np.cos(x))
    expected = curvature * np.outer(np.cos(x), np.cos(x)) + diagonal + row + row.T
    for library in ("numpy", "torch"):
        found = hesse.hessian(product_and_row, backend=library)(x)
        np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_products_that_are_results_lie_in_memory_row_by_row(library):
    def product_and_more(a, b, c):
        product = a @ b
        return product, np.tanh(product.T) * c

    _, *arguments = ARRAYS
    product, more = hesse.compile(product_and_more, backend=library)(*arguments)
    first, second, third = arguments
    assert product.flags.c_contiguous
    np.testing.assert_allclose(product, first @ second, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(more, np.tanh((first @ second).T) * third, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("index", [np.s_[:, None], np.s_[None, :], np.s_[None, :, None]])
def test_unit_axes_take_an_index(index):
    """`np.broadcast_to` takes ten times as long, and its result has to be copied."""
    x, y = RANDOM.normal(size=5), RANDOM.normal(size=5)
    added = hesse.compile(lambda x, y: (np.sin(x) + y)[index])
    for _ in range(2):
        result = added(x, y)
        np.testing.assert_allclose(result, (np.sin(x) + y)[index])
        assert result.flags.writeable and result.flags.c_contiguous
    assert "broadcast_to" not in added.explain(x, y).source


@pytest.mark.parametrize("library", ["numpy", "torch", "jax"])
def test_sums_of_numbers_with_unit_axes(library):
    def added(x, y):
        return (np.sum(x) + np.sum(np.sin(y))).reshape(1, 1), np.sum(x) * np.ones((1, 3)) + np.sum(y)

    x, y = RANDOM.normal(size=5), RANDOM.normal(size=5)
    unit, repeated = hesse.compile(added, backend=library)(x, y)
    assert unit.shape == (1, 1) and repeated.shape == (1, 3)
    np.testing.assert_allclose(unit, np.sum(x) + np.sum(np.sin(y)))
    np.testing.assert_allclose(repeated, np.sum(x) + np.sum(y))


def _variables(root):
    return [node for node in topological([root]) if isinstance(node, Variable)]


HEADS, BATCH, LENGTH, SIZE = 2, 4, 8, 16


def attention(weight, x):
    """The gradient by the weight is put together from q, k and v, whose axes are heads and their entries."""
    parts = torch.nn.functional.linear(x, weight).view(BATCH, LENGTH, 3, HEADS, SIZE // HEADS)
    q, k, v = parts.permute(2, 0, 3, 1, 4).unbind(0)
    mixed = torch.softmax(q @ k.transpose(-1, -2), -1) @ v
    return torch.sum(mixed.transpose(1, 2).reshape(BATCH, LENGTH, SIZE) ** 2)


@pytest.mark.filterwarnings("ignore:`torch.jit.script`:DeprecationWarning")  # of its decompositions
def test_terms_with_merged_axes():
    """Sums whose terms have merged axes are met on the way, and left alone."""
    generator = torch.Generator().manual_seed(0)
    shapes = (3 * SIZE, SIZE), (BATCH, LENGTH, SIZE), (3 * SIZE, SIZE)
    weight, x, along = (torch.randn(*s, generator=generator, dtype=torch.float64) / 4 for s in shapes)
    found = hesse.hvp(attention)(weight, x, along)
    gradient = torch.func.grad(attention)
    expected = torch.func.jvp(lambda w: gradient(w, x), (weight,), (along,))[1]
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-10)


def turned(points, axes, xp=np):
    """Points turned about axes of their own: `(n, 3)`."""
    angle = xp.sqrt(xp.sum(axes**2, 1))[:, None]
    unit, along = axes / angle, xp.sum(axes * points, 1)[:, None]
    parts = [unit[:, i] * points[:, j] - unit[:, j] * points[:, i] for i, j in ((1, 2), (2, 0), (0, 1))]
    cosine = xp.cos(angle)
    return points * cosine + xp.stack(parts, 1) * xp.sin(angle) + unit * along * (1.0 - cosine)


@pytest.mark.parametrize("count", [100, 3000])
def test_points_are_read_by_columns(count):
    """Nobody sees it in arguments and results."""
    points, axes = np.random.default_rng(0).normal(size=(2, count, 3))
    given = points.copy(), axes.copy()
    gradient = hesse.grad(lambda p, a: np.sum(np.sin(turned(p, a))), argnums=(0, 1))
    assert "np.asfortranarray(x0)" in gradient.explain(points, axes).source
    reference = jax.grad(lambda p, a: jnp.sum(jnp.sin(turned(p, a, jnp))), argnums=(0, 1))
    for arrays in (given, tuple(map(np.asfortranarray, given)), (points[::-1], axes[::-1])):
        found = gradient(*arrays)
        for part, right in zip(found, evaluate_jax(reference, *arrays), strict=True):
            assert part.flags.c_contiguous
            assert relative_error(part, right) < TOLERANCE
    np.testing.assert_array_equal(points, given[0])
    np.testing.assert_array_equal(axes, given[1])


def test_structured_results_of_columns_are_right():
    points, axes = np.random.default_rng(0).normal(size=(2, 100, 3))
    jacobian = hesse.jacobian(turned, argnums=(0, 1), form="structured")
    reference = nested_jax(lambda p, a: turned(p, a, jnp), 1, (0, 1))
    for found, right in zip(jacobian(points, axes), evaluate_jax(reference, points, axes), strict=True):
        assert relative_error(found.dense(), right) < TOLERANCE


def test_arguments_that_are_results_stay_themselves():
    """The structured form refers to data; a copy by columns would be another array."""
    points, weights = np.random.default_rng(0).normal(size=(2, 100, 3))
    same = hesse.jacobian(lambda w, p: p * w, form="structured")(weights, points)
    assert same.terms[0].factors[0] is points


def test_products_whose_entries_are_multiplied_into_stacks_lie_by_rows():
    """Otherwise the stack would lie by columns, and be subtracted from one that lies by rows."""
    rows, weights = RANDOM.normal(size=(512, 10)), RANDOM.normal(size=(10, 10))
    others = RANDOM.normal(size=(512, 10, 10))

    def stacks(rows, weights, others):
        product = np.tanh(rows) @ weights
        return product[:, :, None] * product[:, None, :] - others

    program = hesse.compile(stacks)
    shapes = _product_shapes(program.explain(rows, weights, others).program)
    assert (512, 10) in shapes and (10, 512) not in shapes
    found, product = program(rows, weights, others), np.tanh(rows) @ weights
    expected = product[:, :, None] * product[:, None, :] - others
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12)


def _product_shapes(program):
    pairs = zip(program.shapes, program.instructions, strict=True)
    return [shape for shape, item in pairs if isinstance(item, Contract) and item.is_sum]
