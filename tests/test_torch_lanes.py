"""Captured graphs without a GPU: what runs on which stream, what waits for what, and what is copied."""

from __future__ import annotations

import itertools
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


class FakeRecording:
    """Stands for a graph: it computes with what lies where it was recorded."""

    made: ClassVar[list[set[int]]] = []

    def __init__(self, function: Callable[..., Any], arrays: Sequence[Tensor], moving: set[int]) -> None:
        self.function, self.moving = function, set(moving)
        self.addresses = [graphs._address(array) for array in arrays]
        self.made.append(self.moving)
        self.found: Any = None

    def is_fixed(self, arrays: Sequence[Tensor]) -> bool:
        return all(
            graphs._address(array) == address
            for k, (array, address) in enumerate(zip(arrays, self.addresses, strict=True))
            if k not in self.moving
        )

    def run(self, arrays: Sequence[Tensor]) -> None:
        self.found = self.function(*arrays)

    def results(self, arrays: Sequence[Tensor], copies: bool) -> Any:
        return self.found


@pytest.fixture
def graphed(monkeypatch: pytest.MonkeyPatch) -> Graphed:
    """The product of two tensors, captured as if they were on a GPU."""
    FakeRecording.made.clear()
    monkeypatch.setattr(graphs, "Recording", FakeRecording)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: None)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    monkeypatch.setattr(Graphed, "_wait", lambda self, device: None)
    return Graphed(lambda x, y: (x * y,), lambda: lambda x, y: (x * y,), copies=True)


def test_arguments_that_stay_where_they_are_are_not_copied(graphed: Graphed) -> None:
    x, weight = torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0])
    others = [torch.tensor([float(k), 1.0]) for k in range(4)]  # all alive: each in its own place
    assert torch.equal(graphed(x, weight)[0], x * weight)
    assert not FakeRecording.made
    for other in others:
        assert torch.equal(graphed(other, weight)[0], other * weight)
    assert FakeRecording.made == [{0}]  # one graph for all of them
    weight *= 2.0
    assert torch.equal(graphed(x, weight)[0], x * weight)
    assert len(FakeRecording.made) == 1


def test_graphs_are_recorded_at_most_three_times(graphed: Graphed) -> None:
    values = [torch.tensor([float(k), 1.0]) for k in range(8)]
    fixed = torch.tensor([1.0, 1.0])
    calls = [(fixed, fixed), (fixed, fixed), *itertools.pairwise(values), (values[0], fixed)]
    for x, y in calls:
        assert torch.equal(graphed(x, y)[0], x * y)
    assert FakeRecording.made == [set(), {0, 1}]
    transposed = torch.arange(4.0).reshape(2, 2).T[0]  # the same place, other strides
    for _ in range(3):
        assert torch.equal(graphed(transposed, fixed)[0], transposed * fixed)


def test_calls_that_autograd_watches_are_not_replayed(graphed: Graphed) -> None:
    x, y = torch.tensor([1.0, 2.0], requires_grad=True), torch.tensor([3.0, 4.0])
    for _ in range(3):
        (result,) = graphed(x, y)
        assert torch.equal(torch.autograd.grad(result.sum(), x)[0], y)
    assert not FakeRecording.made


def test_threads_share_a_graph(graphed: Graphed) -> None:
    x, y = torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0])
    graphed(x, y)
    found: list[Tensor] = []
    threads = [threading.Thread(target=lambda: found.append(graphed(x, y)[0])) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert all(torch.equal(one, x * y) for one in found)
    assert len(FakeRecording.made) == 1
