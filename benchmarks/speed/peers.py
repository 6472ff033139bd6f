"""Other libraries as candidates: JAX, asdex, torch and autograd, each where it can be imported."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module, metadata, util
from typing import Any

import numpy as np

import hesse
from benchmarks.speed.candidates import DENSE, STRUCTURED, Candidate, Thunk, as_arrays, direction
from benchmarks.speed.libraries import jax_library
from benchmarks.speed.problem import Arrays, Problem

LIBRARIES = ("jax", "asdex", "torch", "autograd")

Transform = Callable[[Callable[..., Any]], Callable[..., Any]]


def missing() -> list[str]:
    """Libraries that cannot be imported here."""
    return [name for name in LIBRARIES if util.find_spec(name) is None]


def versions() -> dict[str, str]:
    """Versions of everything that is compared."""
    names = ("hesse", "numpy", "scipy", *LIBRARIES)
    return {name: metadata.version(name) for name in names if util.find_spec(name) is not None}


def import_all() -> None:
    """Import the libraries, and what hesse has for them, and start their compilers now.

    So no measurement includes it.
    """
    for name in LIBRARIES:
        if name not in missing():
            import_module(name)
    if "jax" not in missing():
        jax = jax_library().jax
        jax.block_until_ready(jax.jit(lambda x: x @ x)(np.ones((2, 2))))
        hesse.grad(jax.numpy.sum)(jax.numpy.ones(2))
    if "torch" not in missing():
        hesse.grad(import_module("torch").sum)(import_module("torch").ones(2))


def dense_peers(problem: Problem, arguments: Arrays, with_compile: bool) -> list[Candidate]:
    """Libraries that form the dense result."""
    absent = missing()
    found: list[Candidate] = []
    if "jax" not in absent:
        found += _jax_peers(problem, arguments)
    if "torch" not in absent:
        found += _torch_peers(problem, arguments, with_compile)
    if "autograd" not in absent:
        found += _autograd_peers(problem, arguments)
    return found


def structured_peers(problem: Problem, arguments: Arrays) -> list[Candidate]:
    """Libraries told about the structure: a map over examples, a colouring."""
    absent = missing()
    found: list[Candidate] = []
    if "jax" not in absent and problem.each is not None:
        found.append(_mapped(problem, arguments))
    if "asdex" not in absent and problem.is_sparse:
        found.append(_coloured(problem, arguments))
    return found


def _jax_thunk(function: Callable[..., Any], arguments: Arrays) -> Thunk:
    jax = jax_library().jax
    compiled, values = jax.jit(function), [jax.numpy.asarray(a) for a in arguments]
    return lambda: jax.block_until_ready(compiled(*values))


def jax_transforms(derivative: str) -> dict[str, Transform]:
    jax = jax_library().jax
    jnp = jax.numpy

    def hessian_vector(f: Callable[..., Any]) -> Callable[..., Any]:
        def product(x: Any, *rest: Any) -> Any:
            *data, v = rest
            return jax.jvp(lambda point: jax.grad(f)(point, *data), (x,), (v,))[1]

        return product

    def second_directional(f: Callable[..., Any]) -> Callable[..., Any]:
        def total(x: Any, *data: Any) -> Any:
            def along(v: Any) -> Any:
                slope = lambda p: jax.jvp(lambda q: f(q, *data), (p,), (v,))[1]  # noqa: E731
                return jax.jvp(slope, (x,), (v,))[1]

            return jnp.sum(jax.vmap(along)(jnp.eye(x.size)))

        return total

    table: dict[str, dict[str, Transform]] = {
        "hessian": {
            "jax.hessian jit": jax.hessian,
            "jacrev(grad) jit": lambda f: jax.jacrev(jax.grad(f)),
        },
        "jacobian": {"jax.jacfwd jit": jax.jacfwd, "jax.jacrev jit": jax.jacrev},
        "third": {"jacfwd(hessian) jit": lambda f: jax.jacfwd(jax.hessian(f))},
        "value_and_grad": {"jax.value_and_grad jit": jax.value_and_grad},
        "hvp": {"jvp(grad) jit": hessian_vector},
        "laplacian": {
            "trace(jax.hessian) jit": lambda f: lambda *a: jnp.trace(jax.hessian(f)(*a)),
            "vmap(jvp(jvp)) jit": second_directional,
        },
    }
    return table.get(derivative, {})


def _jax_peers(problem: Problem, arguments: Arrays) -> list[Candidate]:
    f = problem.function_for("jax", jax_library().jax.numpy)

    def candidate(name: str, transform: Transform) -> Candidate:
        return Candidate(name, DENSE, lambda: _jax_thunk(transform(f), arguments), as_arrays)

    return [candidate(*item) for item in jax_transforms(problem.derivative).items()]


def _mapped(problem: Problem, arguments: Arrays) -> Candidate:
    jax = jax_library().jax
    assert problem.each is not None
    one = problem.each(jax.numpy)
    transform = jax.hessian if problem.derivative == "hessian" else jax.jacfwd
    function = jax.vmap(transform(one), in_axes=problem.each_axes)
    vector = direction(arguments)

    def compare(blocks: Any) -> list[np.ndarray]:
        return [np.einsum("bij,bj->bi", np.asarray(blocks), vector)]

    name = "vmap(hessian) jit" if problem.derivative == "hessian" else "vmap(jacfwd) jit"
    return Candidate(name, STRUCTURED, lambda: _jax_thunk(function, arguments), compare)


def _coloured(problem: Problem, arguments: Arrays) -> Candidate:
    jax, asdex = jax_library().jax, import_module("asdex")
    f = problem.function_for("jax", jax.numpy)
    shape = arguments[0].shape

    def flat(x: Any, *data: Any) -> Any:
        return f(x.reshape(shape), *data)

    def prepare() -> Thunk:
        values = (arguments[0].ravel(), *arguments[1:])
        function = asdex.hessian(flat, *map(jax.numpy.asarray, values))
        return _jax_thunk(function, values)

    def compare(matrix: Any) -> list[np.ndarray]:
        return [np.asarray(matrix @ direction(arguments).ravel()).reshape(shape)]

    return Candidate("asdex jit", STRUCTURED, prepare, compare)


def _torch_transforms(derivative: str) -> dict[str, Transform]:
    torch = import_module("torch")
    func = torch.func

    def value_first(f: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *a: func.grad_and_value(f)(*a)[::-1]

    def hessian_vector(f: Callable[..., Any]) -> Callable[..., Any]:
        def product(x: Any, *rest: Any) -> Any:
            *data, v = rest
            return func.jvp(lambda point: func.grad(f)(point, *data), (x,), (v,))[1]

        return product

    table: dict[str, dict[str, Transform]] = {
        "hessian": {"torch.func.hessian": func.hessian},
        "jacobian": {"torch.func.jacfwd": func.jacfwd, "torch.func.jacrev": func.jacrev},
        "third": {"torch jacfwd(hessian)": lambda f: func.jacfwd(func.hessian(f))},
        "value_and_grad": {"torch.func.grad_and_value": value_first},
        "hvp": {"torch jvp(grad)": hessian_vector},
        "laplacian": {"torch trace(hessian)": lambda f: lambda *a: torch.trace(func.hessian(f)(*a))},
    }
    return table.get(derivative, {})


def _torch_compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compiled for the sizes of its first call: no limit on how many of them there may be before that."""
    config = import_module("torch._dynamo.config")
    config.recompile_limit = config.accumulated_recompile_limit = 10_000
    compiled: Callable[..., Any] = import_module("torch").compile(function, dynamic=False)
    return compiled


def _torch_peers(problem: Problem, arguments: Arrays, with_compile: bool) -> list[Candidate]:
    torch = import_module("torch")
    f = problem.function_for("torch", torch)
    values = [torch.from_numpy(np.ascontiguousarray(a)) for a in arguments]

    def candidate(name: str, transform: Transform, is_compiled: bool) -> Candidate:
        def prepare() -> Thunk:
            function = _torch_compiled(transform(f)) if is_compiled else transform(f)
            return lambda: function(*values)

        return Candidate(f"{name} compiled" if is_compiled else name, DENSE, prepare, as_arrays)

    ways = (False, True) if with_compile else (False,)
    transforms = _torch_transforms(problem.derivative)
    return [candidate(name, transform, way) for name, transform in transforms.items() for way in ways]


def _autograd_peers(problem: Problem, arguments: Arrays) -> list[Candidate]:
    autograd, anp = import_module("autograd"), import_module("autograd.numpy")
    f = problem.function_for("autograd", anp)

    def hessian_vector(*a: Any) -> Any:
        *rest, v = a
        return autograd.hessian_vector_product(f)(*rest, v)

    table: dict[str, Callable[[], Callable[..., Any]]] = {
        "hessian": lambda: autograd.hessian(f),
        "jacobian": lambda: autograd.jacobian(f),
        "third": lambda: autograd.jacobian(autograd.hessian(f)),
        "value_and_grad": lambda: autograd.value_and_grad(f),
        "hvp": lambda: hessian_vector,
        "laplacian": lambda: lambda *a: np.trace(autograd.hessian(f)(*a)),
    }
    if problem.derivative not in table:
        return []

    def prepare() -> Thunk:
        function = table[problem.derivative]()
        return lambda: function(*arguments)

    return [Candidate("autograd", DENSE, prepare, as_arrays, is_numpy=True)]
