"""Captured graphs without a GPU: what runs on which stream, what waits for what, and what is copied."""

from __future__ import annotations

import itertools
import sys
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, ClassVar

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import hesse
from hesse.backends.torch import graphs, writer
from hesse.backends.torch.graphs import Graphed, is_worth_capturing
from hesse.backends.torch.lanes import Step, is_worth_lanes, steps
from hesse.backends.torch.machine import TORCH_MACHINE
from hesse.backends.torch.writer import LanedWriter, TorchWriter
from hesse.plan.program import Program


@st.composite
def reads(draw: Any) -> dict[int, list[int]]:
    """For each of some instructions the earlier ones that it reads."""
    count = draw(st.integers(1, 25))
    return {k: draw(st.lists(st.integers(0, k - 1), max_size=3)) if k else [] for k in range(count)}


def with_costs(read: dict[int, list[int]], cheap: Sequence[bool]) -> dict[int, float]:
    """Instructions that read one value may be views, which cost nothing."""
    return {k: 0.0 if cheap[k] and len(read[k]) == 1 else 1.0 + k % 3 for k in read}


def before(found: list[Step]) -> dict[int, set[int]]:
    """For each instruction what is over when it begins, by the rules of streams and events."""
    over: dict[int, set[int]] = {}
    lanes: dict[int, set[int]] = {}
    marks: dict[int, set[int]] = {}
    for step in found:
        known = lanes.setdefault(step.lane, set())
        for ref in step.waits:
            known |= marks[ref]
        over[step.ref] = set(known)
        known.add(step.ref)
        if step.is_marked:
            marks[step.ref] = set(known)
    return over


@settings(max_examples=300, deadline=None)
@given(reads(), st.lists(st.booleans(), min_size=25, max_size=25), st.integers(1, 5))
def test_whatever_is_read_is_there(read: dict[int, list[int]], cheap: list[bool], lanes: int) -> None:
    results = [max(read)]
    found = steps(read, with_costs(read, cheap), results, lanes)
    assert sorted(step.ref for step in found) == list(read)
    assert all(0 <= step.lane < lanes for step in found)
    over = before(found)
    for ref, sources in read.items():
        assert over[ref].issuperset(sources), ref
    place = {step.ref: step.lane for step in found}
    order = [step.ref for step in found]
    for step in found:
        for freed in step.frees:
            readers = [ref for ref in read if freed in read[ref]]
            assert freed not in results
            assert {place[ref] for ref in readers} == {place[freed]} == {step.lane}
            assert max(order.index(ref) for ref in readers) == order.index(step.ref)


def test_what_does_not_wait_runs_side_by_side() -> None:
    """Two chains take two lanes, one chain takes one."""
    chains = {k: [k - 2] if k > 1 else [] for k in range(20)}
    found = steps(chains, dict.fromkeys(chains, 1.0), [18, 19], 4)
    assert [{step.lane for step in found if step.ref % 2 == k} for k in (0, 1)] == [{0}, {1}]
    assert not any(step.waits for step in found)
    chain = {k: [k - 1] if k else [] for k in range(20)}
    assert {step.lane for step in steps(chain, dict.fromkeys(chain, 1.0), [19], 4)} == {0}


class Recorded:
    """Stands for the streams of a run: nothing is waited for before somebody has said that it is there."""

    runs: ClassVar[list[Recorded]] = []

    def __init__(self, count: int) -> None:
        self.count, self.lane, self.marks = count, 0, set[int]()
        self.used = {0}
        self.is_joined = False
        self.runs.append(self)

    def go(self, lane: int) -> None:
        self.lane = lane
        self.used.add(lane)

    def mark(self, ref: int) -> None:
        self.marks.add(ref)

    def wait(self, ref: int) -> None:
        assert ref in self.marks

    def join(self) -> None:
        self.is_joined = True


def _net(x: Tensor, *weights: Tensor) -> Tensor:
    for weight in weights:
        x = torch.tanh(x @ weight) + 0.1 * x
    return (x[:, :2] * x[:, 1:3].flip(1)).sum() + torch.softmax(x, 1).square().sum()


def _programs() -> dict[str, tuple[Any, list[Tensor]]]:
    generator = torch.Generator().manual_seed(0)
    x, *weights = (torch.randn(4, 4, generator=generator, dtype=torch.float64) for _ in range(4))
    everything = tuple(range(4))
    return {
        "blocks": (hesse.hessian(_net, argnums=everything), [x, *weights]),
        "gradient": (hesse.value_and_grad(_net, argnums=everything), [x, *weights]),
        "structured": (hesse.hessian(partial(torch.sum, dim=None), form="structured"), [x]),
        "third": (hesse.derivative(lambda x: (x[1:] * x[:-1]).sin().sum() + x.prod(), order=3), [x[0]]),
        "diagonals": (hesse.hessian(lambda x: (x.flip(0)[1:] * x[:-1] ** 2).sum() ** 2), [x[0]]),
    }


@pytest.mark.parametrize("name", _programs())
def test_a_program_over_lanes_computes_the_same(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    derivative, arguments = _programs()[name]
    derivative = derivative.compile(backend="torch")
    derivative(*arguments)
    found = derivative.explain(*arguments).executable
    written = found.program, found.dtype, TORCH_MACHINE, found.shared, torch.device("cpu")
    expected = TorchWriter(*written).compiled(found.inputs).function(*arguments)
    monkeypatch.setattr(writer, "Lanes", Recorded)
    laned = LanedWriter(*written).compiled(found.inputs)
    Recorded.runs.clear()
    for one, other in zip(laned.function(*arguments), expected, strict=True):
        assert torch.equal(one, other)
    if name == "structured":  # nothing is computed
        assert not Recorded.runs
        return
    (run,) = Recorded.runs
    assert run.is_joined
    assert run.count == TORCH_MACHINE.lanes
    if name == "blocks":
        assert len(run.used) > 2


def test_large_programs_keep_to_one_stream() -> None:
    def program(side: int) -> Program:
        x = torch.ones(side, side)
        derivative = hesse.grad(lambda x: torch.tanh(torch.tanh(x) @ x).sum()).compile(backend="torch")
        found: Program = derivative.explain(x).executable.program
        return found

    assert is_worth_lanes(program(10), 4, TORCH_MACHINE)
    assert not is_worth_lanes(program(10_000), 4, TORCH_MACHINE)


def test_programs_that_read_nothing_are_not_captured() -> None:
    derivative = hesse.hessian(lambda x: (3.0 * x).square().sum()).compile(backend="torch")
    program = derivative.explain(torch.ones(3)).executable.program
    assert not is_worth_capturing(program, 4, TORCH_MACHINE)


class Replayed:
    """Stands for a graph: a replay computes with what lies where it was recorded, over the last results."""

    def __init__(self, function: Callable[..., Any], given: Sequence[Tensor]) -> None:
        self.function, self.given = function, given
        self.results = function(*given)

    def replay(self) -> None:
        for result, value in zip(self.results, self.function(*self.given), strict=True):
            result.copy_(value)


class Counted(graphs.Recording):
    """Says which arguments are copied in each recording."""

    made: ClassVar[list[set[int]]] = []

    def __init__(self, function: Callable[..., Any], arrays: Sequence[Tensor], moving: set[int]) -> None:
        super().__init__(function, arrays, moving)
        self.made.append(set(moving))


def as_if_captured(function: Callable[..., Any], given: Sequence[Tensor]) -> tuple[Any, Any]:
    graph = Replayed(function, given)
    return graph, graph.results


def product(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    return (x * y,)


@pytest.fixture
def graphed(monkeypatch: pytest.MonkeyPatch) -> Graphed:
    """The product of two tensors, captured as if they were on a GPU."""
    Counted.made.clear()
    monkeypatch.setattr(graphs, "Recording", Counted)
    monkeypatch.setattr(graphs, "_captured", as_if_captured)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: None)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    monkeypatch.setattr(Graphed, "_wait", lambda self, device: None)
    return Graphed(product, lambda: product, copies=True)


def test_arguments_that_stay_where_they_are_are_not_copied(graphed: Graphed) -> None:
    x, weight = torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0])
    others = [torch.tensor([float(k), 1.0]) for k in range(4)]  # all alive: each in its own place
    assert torch.equal(graphed(x, weight)[0], x * weight)
    assert not Counted.made
    for other in others:
        assert torch.equal(graphed(other, weight)[0], other * weight)
    assert Counted.made == [{0}]  # one graph for all of them
    weight *= 2.0
    assert torch.equal(graphed(x, weight)[0], x * weight)
    assert len(Counted.made) == 1


def test_results_outlive_the_next_call(graphed: Graphed) -> None:
    x, y = torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0])
    found = [graphed(x, y)[0] for _ in range(3)]
    x *= 10.0
    assert torch.equal(graphed(x, y)[0], torch.tensor([30.0, 80.0]))
    assert all(torch.equal(one, torch.tensor([3.0, 8.0])) for one in found)


def test_graphs_are_recorded_at_most_three_times(graphed: Graphed) -> None:
    values = [torch.tensor([float(k), 1.0]) for k in range(8)]
    fixed = torch.tensor([1.0, 1.0])
    calls = [(fixed, fixed), (fixed, fixed), *itertools.pairwise(values), (values[0], fixed)]
    for x, y in calls:
        assert torch.equal(graphed(x, y)[0], x * y)
    assert Counted.made == [set(), {0, 1}]


@pytest.mark.parametrize("name", ["strides", "sign", "offset"])
def test_other_views_of_the_same_memory_are_other_arguments(graphed: Graphed, name: str) -> None:
    numbers = torch.arange(1.0, 5.0)
    z = torch.complex(numbers, numbers + 1.0)
    pairs = {
        "strides": (numbers[:2], numbers[::2]),
        "sign": (z.imag[:2], z.conj().imag[:2]),
        "offset": (numbers[:2], numbers[1:3]),
    }
    y = torch.tensor([1.0, 10.0])
    first, second = pairs[name]
    for x in (first, first, second, first, second, second):
        assert torch.equal(graphed(x, y)[0], x * y)


def test_without_memory_for_a_graph_the_function_runs(
    graphed: Graphed, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*arguments: Any) -> Any:
        Counted.made.append(set())
        raise torch.OutOfMemoryError

    monkeypatch.setattr(graphs, "_captured", full)
    x, y = torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0])
    for _ in range(4):
        assert torch.equal(graphed(x, y)[0], x * y)
    assert len(Counted.made) == 1


def test_calls_that_autograd_watches_are_not_replayed(graphed: Graphed) -> None:
    x, y = torch.tensor([1.0, 2.0], requires_grad=True), torch.tensor([3.0, 4.0])
    for _ in range(3):
        (result,) = graphed(x, y)
        assert torch.equal(torch.autograd.grad(result.sum(), x)[0], y)
    assert not Counted.made


def test_threads_share_a_graph(graphed: Graphed) -> None:
    """One at a time: what a call copies to the graph is what it computes with."""
    y = torch.tensor([1.0, 10.0])
    values = [torch.tensor([float(k), 1.0]) for k in range(16)]
    graphed(values[0], y)
    graphed(values[1], y)
    found: dict[int, list[Tensor]] = {k: [] for k in range(16)}

    def calls(k: int) -> None:
        found[k] = [graphed(values[k], y)[0] for _ in range(50)]

    threads = [threading.Thread(target=calls, args=(k,)) for k in found]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    sys.setswitchinterval(interval)
    for k, results in found.items():
        assert len(results) == 50
        assert all(torch.equal(one, values[k] * y) for one in results)
    assert Counted.made == [{0}]


def test_lanes_end_where_they_began_if_a_line_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    derivative, arguments = _programs()["blocks"]
    derivative = derivative.compile(backend="torch")
    derivative(*arguments)
    found = derivative.explain(*arguments).executable

    def fail(self: Recorded, ref: int) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(Recorded, "wait", fail)
    monkeypatch.setattr(writer, "Lanes", Recorded)
    laned = LanedWriter(found.program, found.dtype, TORCH_MACHINE, found.shared, torch.device("cpu"))
    Recorded.runs.clear()
    with pytest.raises(ZeroDivisionError):
        laned.compiled(found.inputs).function(*arguments)
    assert Recorded.runs[0].is_joined
