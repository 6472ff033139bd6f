"""The tools of the benchmarks: the comparison of two versions, and the calibration."""

from __future__ import annotations

import math
import operator
import subprocess
import sys
from dataclasses import fields

import numpy as np
import pytest

from benchmarks.adbench import bundles, hands, mixtures, sequences
from benchmarks.adbench.candidates import HESSE, JAX, SCAN, XLA, candidates
from benchmarks.adbench.case import Case
from benchmarks.adbench.report import HEADINGS, Row, cells, losses
from benchmarks.calibrate import measuring
from benchmarks.calibrate.__main__ import main, target_of
from benchmarks.calibrate.measuring import Found, best_threshold, largest, smallest
from benchmarks.compare.process import ROOT, Trouble, measure, opened, prepared, versions
from benchmarks.compare.statistics import FOLD, differs, fingerprint, ratio
from hesse.backends.target import BACKENDS, target_named


def _samples(factor: float, count: int = 41) -> tuple[list[float], list[float]]:
    """Pairs on a machine whose load changes the time of both tenfold, with some noise on each."""
    random = np.random.default_rng(0)
    load = np.exp(random.uniform(0, np.log(10), size=count))
    old, new = (load * random.normal(1, 0.02, size=count) for _ in range(2))
    return list(old), list(factor * new)


@pytest.mark.parametrize("factor", [0.5, 0.97, 1.0, 1.03, 1.08, 2.0])
def test_a_ratio_is_seen_through_a_changing_load(factor: float) -> None:
    found = ratio(*_samples(factor))
    assert found.middle == pytest.approx(factor, rel=0.015)
    assert found.least <= factor <= found.most
    assert found.most - found.least < 0.05 * factor
    assert found.is_slower == (factor > 1.05)


def test_the_interval_of_few_samples_is_their_range() -> None:
    assert ratio([1.0, 1.0, 1.0], [1.0, 3.0, 2.0]) == (2.0, 1.0, 3.0)


@pytest.mark.parametrize("shape", [(), (0,), (3, 5), (FOLD,), (2 * FOLD,), (90, 91)])
def test_fingerprints_differ_where_an_entry_does(shape: tuple[int, ...]) -> None:
    array = np.random.default_rng(1).normal(size=shape)
    rounded = array * (1 + 1e-13)
    assert not differs([fingerprint(array)], [fingerprint(rounded)])
    for at in {0, array.size // 2, array.size - 1} if array.size else ():
        other = array.copy()
        other.reshape(-1)[at] += 1e-5
        assert differs([fingerprint(array)], [fingerprint(other)])


def test_fingerprints_of_other_shapes_or_nan_differ() -> None:
    assert differs([fingerprint(np.ones(3))], [fingerprint(np.ones(4))])
    assert differs([[1.0]], [[1.0], [2.0]])
    assert differs([[np.nan]], [[1.0]])


def test_a_version_agrees_with_itself() -> None:
    with versions(ROOT, ROOT) as pair:
        assert opened(pair, "Rosenbrock chain", 300) == ["dense", "structured", "product"]
        pairs = prepared(pair, "structured")
        assert not differs(*(answer["prints"] for answer in pairs.prepared))
        measure(pair, pairs, seconds=0.01)
        assert len(pairs.samples[0]) == len(pairs.samples[1]) >= 5
        with pytest.raises(Trouble, match="KeyError"):
            prepared(pair, "no such result")


@pytest.mark.parametrize("backend", BACKENDS)
def test_every_field_is_measured_or_a_choice(backend: str) -> None:
    target = target_of(backend)
    assert target.machine == target_named(backend).machine
    names = [field.name for field in fields(target.machine)]
    assert sorted([*target.measurements, *target.choices]) == sorted(names)
    assert target.needs.keys() <= target.measurements.keys()


def test_thresholds_are_found_through_a_wrong_measurement() -> None:
    sizes = [1, 2, 4, 8, 16]
    assert smallest(sizes, lambda size: size in (1, 4, 8, 16)) == 4
    assert largest(sizes, lambda size: size in (1, 2, 4, 16)) == 4
    assert smallest(sizes, lambda size: False) is None


def test_the_best_threshold_takes_the_least_time() -> None:
    """One way takes half of the time from 4 on, with one wrong measurement; 16 would take the other one."""
    half = math.log(2.0)
    gains = {1: half, 2: half, 4: -half, 8: half / 2, 16: -half, 32: -half}
    assert best_threshold(gains, 4, operator.ge) == Found(4, 1.0)
    value, taken = best_threshold(gains, 1, operator.ge)
    assert value == 4 and taken == pytest.approx(2 ** (2 / 6))
    assert best_threshold(gains, 16, operator.ge).taken == pytest.approx(2 ** (0.5 / 6))
    assert best_threshold({1: half, 2: half}, math.inf, operator.ge) == Found(None, 1.0)
    assert best_threshold({1: -half, 2: -half, 4: half}, 2, operator.le) == Found(2, 1.0)


@pytest.fixture
def in_a_hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """One size for each measurement, which is called once."""
    monkeypatch.setattr(measuring, "PATIENCE", 0.0)
    monkeypatch.setattr(measuring, "FEWEST", 1)
    monkeypatch.setattr(measuring, "tried", lambda sizes: sizes[len(sizes) // 2 :][:1])


@pytest.mark.usefixtures("in_a_hurry")
@pytest.mark.parametrize("backend", BACKENDS)
def test_records_are_measured(backend: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Each threshold by programs that it decides about."""
    assert main(["--target", backend]) == 0
    header, *lines = capsys.readouterr().out.splitlines()
    assert header.split() == [backend, "shipped", "here", "here/shipped", "time"]
    found = {line.split()[0]: line for line in lines if line and not line.startswith("load")}
    assert found.keys() == {field.name for field in fields(target_of(backend).machine)}
    assert all("a choice: " in found[name] for name in target_of(backend).choices)


@pytest.mark.usefixtures("in_a_hurry")
def test_all_back_ends_are_measured(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--only", "entry_cost"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines if "shipped" in line] == [*BACKENDS]


ADBENCH = (
    mixtures.case(3, 2, 5),
    sequences.case(4),
    bundles.case(3),
    hands.case(4, is_complicated=False, fingers=1),
    hands.case(4, is_complicated=True, fingers=1),
)


@pytest.mark.parametrize("case", ADBENCH, ids=lambda case: case.problem)
def test_the_candidates_of_adbench_agree(case: Case) -> None:
    found = {
        candidate.name: candidate.products(candidate.prepare()()) for candidate in candidates(case, False)
    }
    expected = found.pop(JAX)
    assert found
    for parts in found.values():
        for part, other in zip(parts, expected, strict=True):
            np.testing.assert_allclose(part, other, rtol=1e-9, atol=1e-11)


def test_the_fastest_way_of_hesse_counts_in_adbench_and_is_named() -> None:
    row = Row("LSTM", "c = 2", "gradient", function=[1.0])
    row.samples = {HESSE: [4.0], SCAN: [3.0], XLA: [2.0], JAX: [1.0]}
    row.first = {HESSE: 1.0, SCAN: 2.0, XLA: 9.0, JAX: 8.0}
    found = dict(zip(HEADINGS, cells(row), strict=True))
    assert found["fastest of hesse"] == XLA
    assert found["library / hesse"] == "0.50"
    assert [found[name] for name in HEADINGS[-3:]] == ["2 s", "9 s", "8 s"]
    assert losses([row]) == [
        f"- LSTM, c = 2: jitted JAX is 2.0 times as fast as {XLA}.",
        f"- LSTM, c = 2: the first call of {XLA}: 9 s against 8 s of jitted JAX.",
    ]


def test_first_calls_are_measured_in_processes_of_their_own() -> None:
    """Both libraries, in children of a process that has compiled nothing."""
    command = [sys.executable, "-m", "benchmarks.first_calls", "--only", "tiny Rosenbrock", "--rounds", "1"]
    found = subprocess.run(command, check=True, capture_output=True, text=True)
    line = found.stdout.splitlines()[-1].split("  ")
    assert line[0] == "tiny Rosenbrock"
    assert sum("ms" in cell for cell in line) == 2
