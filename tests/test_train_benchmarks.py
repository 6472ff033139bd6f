"""The benchmark of trains: others compute the same, and tables get to their places."""

import json

import pytest

from benchmarks.trains import measure, page, recovery
from benchmarks.trains.functions import NAMES, SIZES, case


@pytest.mark.parametrize("name", ["Rayleigh quotient", "exponential machines"])
def test_doubled_ranks_give_the_same(name):
    _, calls = measure.candidates(case(name, SIZES["tiny"]), SIZES["tiny"])  # compares by itself
    times = measure.medians({key: calls[key] for key in ("f", "gradient", "product")}, rounds=1)
    assert all(found > 0.0 for found in times.values())
    assert {"JAX gradient", "doubled gradient", "doubled product"} <= set(calls)


def test_recovery_of_a_small_tensor(monkeypatch):
    monkeypatch.setattr(recovery, "SEEDS", 2)
    monkeypatch.setattr(recovery, "PROBLEMS", [((12, 10, 11), 2, 8)])
    monkeypatch.setattr(recovery, "NEAR_PROBLEM", ((8, 8, 8), 2, 5))
    found = list(recovery.rows())
    assert [row[1].split(" below")[0] for row in found] == ["2 of 2"] * 3


def test_pages(tmp_path):
    path, page_ = tmp_path / "found.json", tmp_path / "page.md"
    row = {"kind": "gradient", "way": "torch graph", "dtype": "float64", "size": "medium"}
    rows = [row | {"name": NAMES[0], "milliseconds": 2.5}, row | {"name": NAMES[1], "error": "no memory"}]
    path.write_text(json.dumps({"machine": "M", "versions": "V", "results": rows}))
    page_.write_text("before\n<!-- device table -->\nold\n<!-- end of device table -->\nafter\n")
    page.write("device table", page.device_text(path), page_)
    text = page_.read_text()
    assert "| ⟨AX,X⟩, medium | 2.5 | – | – | – | – | 85 |" in text
    assert "| ⟨AᵀAX,X⟩, medium | failed |" in text
    assert "old" not in text and text.startswith("before\n") and text.endswith("after\n")
