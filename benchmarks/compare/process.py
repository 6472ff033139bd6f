"""Two versions as two processes, asked in turns."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
SAMPLE = 3e-3
"""Seconds that a sample should take at least."""
FEWEST, MOST = 5, 101
"""Pairs of samples of a row."""


class Trouble(RuntimeError):
    """A version could not do what was asked of it."""


class Ended(RuntimeError):
    """The process of a version ended, or cannot be begun: nothing can be compared."""


class Version:
    """A source tree of hesse, running in a process of its own."""

    def __init__(self, tree: Path) -> None:
        self.name = str(tree)
        source = (tree / "src").resolve()
        settings = {"PYTHONPATH": f"{source}{os.pathsep}{ROOT}", "PYTHONHASHSEED": "0"}
        environment = {"OMP_WAIT_POLICY": "passive", **os.environ, **settings}
        command = [sys.executable, "-m", "benchmarks.compare.worker"]
        self.process = subprocess.Popen(
            command, cwd=ROOT, env=environment, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self.source = str(source)

    def greet(self) -> None:
        """Wait until it has begun, with the right version."""
        found = self._answer()["source"]
        if found != self.source:
            raise Ended(f"{self.name}: hesse is imported from {found}")

    def ask(self, *request: object) -> dict[str, Any]:
        """The answer to a request."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise Ended(f"{self.name}: the process ended with status {self.process.wait()}")
        answer: dict[str, Any] = json.loads(line)
        if "trouble" in answer:
            raise Trouble(answer["trouble"])
        return answer

    def close(self) -> None:
        """End the process."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


@contextmanager
def versions(old: Path, new: Path) -> Iterator[tuple[Version, Version]]:
    """Both versions in fresh processes."""
    pair = Version(old), Version(new)
    try:
        for version in pair:
            version.greet()
        yield pair
    finally:
        for version in pair:
            version.close()


@dataclass
class Pairs:
    """Samples of both versions, taken in turns; what each prepared (its `first` call, its `prints`)."""

    prepared: list[dict[str, Any]]
    samples: tuple[list[float], list[float]] = field(default_factory=lambda: ([], []))


def opened(pair: tuple[Version, Version], problem: str, size: int) -> list[str]:
    """The results that both versions can be asked for, after both have the data of a problem."""
    first, second = (version.ask("open", problem, size)["comparisons"] for version in pair)
    return [comparison for comparison in first if comparison in second]


def prepared(pair: tuple[Version, Version], comparison: str) -> Pairs:
    """Both versions after their first call."""
    return Pairs([version.ask("prepare", comparison) for version in pair])


def measure(pair: tuple[Version, Version], pairs: Pairs, seconds: float) -> None:
    """Samples of both versions in turns, for so many seconds; who begins changes each time."""
    slowest = max(answer["seconds"] for answer in pairs.prepared)
    count = max(1, int(SAMPLE / max(slowest, 1e-7)))
    start = time.monotonic()
    for turn in range(MOST):
        if turn >= FEWEST and time.monotonic() - start > seconds:
            break
        for k in (0, 1) if turn % 2 else (1, 0):
            pairs.samples[k].append(pair[k].ask("sample", count)["seconds"])
