"""What memory holds: one limit for the process, and nothing of expressions that are gone."""

from __future__ import annotations

import gc
import platform
import subprocess
import sys
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import pytest

import hesse
from hesse.ir import Node, add, keep_nodes, map_, multiply, remembered, variable
from hesse.ir.node import KEPT_VARIANTS, _table
from hesse.plan import allowed_bytes

ARRAY_BYTES = 8_000_000
CLOSURES = 100
LAYERS = 50
SECONDS = 2.0


def in_another_thread(function: Callable[[], object]) -> None:
    thread = threading.Thread(target=function)
    thread.start()
    thread.join()


def test_a_memory_limit_holds_in_every_thread() -> None:
    seen: list[float] = []
    try:
        hesse.set_memory_limit(12345.0)
        in_another_thread(lambda: seen.append(allowed_bytes(lambda: 10**9)))
        in_another_thread(lambda: hesse.set_memory_limit(54321.0))
        seen.append(allowed_bytes(lambda: 10**9))
    finally:
        hesse.set_memory_limit(None)
    assert seen == [12345.0, 54321.0]
    assert allowed_bytes(lambda: 10**9) == 10**9 / 2


def test_a_memory_limit_set_before_refuses_in_a_thread() -> None:
    raised: list[str] = []

    def differentiate() -> None:
        try:
            hesse.hessian(lambda x: (x**2).sum() ** 2)([1.0] * 1000)
        except hesse.errors.MemoryLimitError as error:
            raised.append(str(error))

    try:
        hesse.set_memory_limit(1e5)
        in_another_thread(differentiate)
    finally:
        hesse.set_memory_limit(None)
    assert len(raised) == 1
    assert "more than the 100 kB allowed" in raised[0]


@pytest.fixture
def without_collections() -> Iterator[None]:
    """No garbage collection but those that a test asks for."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def net(x: Any, weights: Iterable[np.ndarray]) -> Any:
    for matrix in weights:
        x = np.tanh(matrix @ x)
    return np.sum(x**2)


@pytest.mark.usefixtures("without_collections")
@pytest.mark.parametrize("form", ["dense", "structured"])
def test_a_dropped_net_is_freed(form: str) -> None:
    """One collection frees all of it, and hardly anything is left for that one."""
    weights = np.random.default_rng(0).standard_normal((LAYERS, 4, 4))
    before = len(_table)
    derivative = hesse.hessian(lambda x: net(x, weights), form=form)
    value = derivative(np.ones(4))
    made = len(_table) - before
    assert made > 2 * LAYERS
    del derivative, value
    assert len(_table) - before < made / 10
    gc.collect()
    assert len(_table) <= before


@pytest.mark.usefixtures("without_collections")
def test_a_printed_formula_is_freed() -> None:
    before = len(_table)
    texts = [str(hesse.parse("x'*A*x/(x'*x)").diff("x", "x")) for _ in range(2)]
    assert texts[0] == texts[1]
    gc.collect()
    assert len(_table) <= before


WAYS: dict[str, Callable[[Callable[..., Any], np.ndarray], Any]] = {
    "gradient": lambda f, x: hesse.grad(f)(x),
    "Hessian": lambda f, x: hesse.hessian(f)(x),
    "structured Hessian": lambda f, x: hesse.hessian(f, form="structured")(x) @ x,
    "solution": lambda f, x: hesse.hessian(f, form="structured")(x).solve(x, damping=1.0),
    "product": lambda f, x: hesse.hvp(f)(x, x),
}


@pytest.mark.usefixtures("without_collections")
def test_closures_over_large_arrays_are_freed() -> None:
    """Each is gone before the next few are there, without a collection."""
    rows, columns = ARRAY_BYTES // 80, 10
    point, numbers = np.ones(columns), np.random.default_rng(0).standard_normal((rows, columns))
    ways = list(WAYS.values())

    def differentiate(k: int) -> None:
        matrix = numbers + k
        way = ways[k % len(ways)]
        way(lambda x: np.sum((matrix @ x) ** 4), point)

    for k in range(len(ways)):  # what is loaded at first use stays
        differentiate(k)
    gc.collect()
    tracemalloc.start(1)
    try:
        for k in range(len(ways), len(ways) + CLOSURES):
            differentiate(k)
        kept, peak = tracemalloc.get_traced_memory()
        gc.collect()
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 8 * ARRAY_BYTES
    assert kept < ARRAY_BYTES
    assert after < ARRAY_BYTES / 8


def parts(value: Any) -> Iterator[Any]:
    """What tuples, lists and dictionaries hold."""
    stack = [value]
    while stack:
        part = stack.pop()
        yield part
        if isinstance(part, dict):
            stack += [*part, *part.values()]
        elif isinstance(part, tuple | list):
            stack += part


def test_no_node_remembers_itself() -> None:
    def function(x: Any) -> Any:
        return np.sum((x[1:] - x[:-1] ** 2) ** 2) + np.sum(x) ** 2 * np.max(x) - np.log(np.sum(np.exp(x)))

    point = np.linspace(0.0, 1.0, 5)
    derivative = hesse.hessian(function, form="structured")
    tensor = derivative(point)
    tensor.solve(point, damping=10.0)
    (tensor.T + 2.0 * tensor).dense()
    hesse.hessian(lambda x: np.sum(x**3), form="structured")(point).to_sparse()
    hesse.hessian(lambda x: np.sum(x**2), form="structured")(point).dense(chunk=5)
    nodes = list(_table.values())
    assert sum(bool(node._cache) for node in nodes) > 50
    assert not [node for node in nodes if any(part is node for part in parts(node._cache))]


def test_what_is_remembered() -> None:
    calls: list[Any] = []

    @remembered
    def itself(node: Node) -> Node:
        calls.append(node)
        return node

    @remembered
    def with_more(node: Node, first: int, second: int = 0) -> tuple[int, int]:
        calls.append((first, second))
        return first, second

    node = variable("remembered", (3,))
    assert itself(node) is itself(node) is node
    assert calls == [node]
    calls.clear()
    assert [with_more(node, 1), with_more(node, 1), with_more(node, 1, second=2)] == [(1, 0), (1, 0), (1, 2)]
    assert calls == [(1, 0), (1, 2)]
    for k in range(2 * KEPT_VARIANTS):
        assert with_more(node, k) == (k, 0)
    assert sum(len(value) for value in node._cache.values() if isinstance(value, dict)) <= KEPT_VARIANTS


@pytest.mark.usefixtures("without_collections")
def test_nodes_are_kept_while_they_may_be_asked_for_again() -> None:
    before = len(_table)
    with keep_nodes():
        with keep_nodes():
            map_("sin", variable("kept", (3,)))
        assert len(_table) == before + 2
    assert len(_table) == before


class Builders:
    """Threads that build the same expressions and drop them, some of them in step with each other."""

    def __init__(self, in_step: int, others: int) -> None:
        self.found: list[list[Node]] = [[] for _ in range(in_step)]
        self.failures: list[str] = []
        self.rounds = 0
        self.end = time.monotonic() + SECONDS
        self.barrier = threading.Barrier(in_step)
        self.threads = [threading.Thread(target=self.step, args=(k,)) for k in range(in_step)]
        self.threads += [threading.Thread(target=self.churn, args=(k,)) for k in range(others)]

    def build(self, k: int) -> list[Node]:
        x, y = variable(f"x{k}", (3,)), variable("y", (3,))
        sine = map_("sin", x)
        product = multiply(sine, y)
        nodes = [x, sine, product, add([product, sine, y], (3,)), map_("exp", product)]
        if sine.operands != (x,) or set(product.operands) != {sine, y} or nodes[-1].operands != (product,):
            self.failures.append("a node with operands of another one")
        return nodes

    def step(self, place: int) -> None:
        try:
            while True:
                self.barrier.wait()
                self.found[place] = self.build(self.rounds % 3)
                self.barrier.wait()
                if any(a is not b for a, b in zip(self.found[0], self.found[place], strict=True)):
                    self.failures.append("two nodes for one expression")
                if self.barrier.wait() == 0:  # in one of the threads
                    self.rounds += 1
                    self.found = [[] for _ in self.found]
                    if self.failures or time.monotonic() > self.end:
                        self.barrier.abort()
        except threading.BrokenBarrierError:
            pass  # the end

    def churn(self, place: int) -> None:
        while not self.failures and time.monotonic() < self.end:
            for k in range(3):
                self.build((k + place) % 3)


def test_threads_never_make_a_node_twice() -> None:
    builders = Builders(in_step=4, others=2)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for thread in builders.threads:
            thread.start()
        for thread in builders.threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert builders.failures == []
    assert builders.rounds > 10


def test_collections_are_as_they_were_after_a_derivative_was_built():
    before = gc.get_threshold()
    seen = []

    def function(x):
        seen.append(gc.get_threshold())
        return np.sum(np.sin(x))

    hesse.grad(function)(np.ones(2))
    with pytest.raises(hesse.HesseError):
        hesse.grad(lambda x: x)(np.ones(2))
    assert gc.get_threshold() == before
    assert seen[0][0] > before[0]


def test_who_wants_no_collections_gets_none():
    before = gc.get_threshold()
    gc.set_threshold(0)
    try:
        hesse.grad(lambda x: np.sum(x * x))(np.ones(2))
        assert gc.get_threshold()[0] == 0
    finally:
        gc.set_threshold(*before)


FAULTS = """
import resource
import numpy as np
import hesse

derivative, x = hesse.hessian(lambda x: np.sum(np.tanh(x[:, None] - x) ** 2)), np.linspace(0, 1, 400)
for _ in range(3):
    derivative(x)
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(10):
    derivative(x)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other allocators do as they like")
def test_memory_of_earlier_calls_is_used_again() -> None:
    """The arrays of a call are 300 pages each, which the operating system would have to hand out anew."""
    done = subprocess.run([sys.executable, "-c", FAULTS], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 300
