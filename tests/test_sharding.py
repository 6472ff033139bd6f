"""Derivatives of distributed arrays: on several devices, and by several processes."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from typing import Any

import pytest

DEVICES, ROWS = 4, 64
SECONDS = 240
ALLOWED = 1.3
"""How much more memory a device may take than its share."""
COLLECTIVES = {
    "logistic gradient": {"all-reduce"},
    "logistic Hessian": {"all-reduce"},
    "batch Hessian": set(),
    "batch blocks": set(),
    "factorisation Hessian": set(),
}
"""What devices send each other, where only one thing is right."""


def started(*options: str) -> subprocess.Popen[str]:
    sizes = ("--devices", str(DEVICES), "--rows", str(ROWS))
    command = [sys.executable, "-m", "benchmarks.sharding", *sizes, *options]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=environment)


def finished(process: subprocess.Popen[str]) -> dict[str, dict[str, Any]]:
    output, errors = process.communicate(timeout=SECONDS)
    assert process.returncode == 0, errors[-2000:]
    found: dict[str, dict[str, Any]] = json.loads(output.splitlines()[-1])
    return found


def check(found: dict[str, dict[str, Any]]) -> None:
    assert len(found) == 8
    for name, case in found.items():
        assert case["error"] < 1e-11, name
        assert case["again"] < 1e-11, name
        if name in COLLECTIVES:
            assert set(case["collectives"]) == COLLECTIVES[name], name
        if "logistic" in name:  # the result is small, and everywhere; the data is not
            assert case["arguments per device"] < ALLOWED * case["arguments"] / DEVICES + 512, name
            assert case["temporaries per device"] < case["arguments"], name
        else:
            assert case["bytes per device"] <= ALLOWED * case["bytes"] / DEVICES, name


@pytest.mark.parametrize("options", [[], ["--explicit"]], ids=["automatic", "explicit"])
def test_several_devices(options: list[str]) -> None:
    check(finished(started(*options)))


def test_several_processes() -> None:
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    shared = ("--processes", "2", "--port", str(port))
    processes = [started(*shared, "--number", str(number)) for number in range(2)]
    try:
        for process in processes:
            check(finished(process))
    finally:
        for process in processes:
            process.kill()
