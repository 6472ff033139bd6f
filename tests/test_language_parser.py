"""The parser of the matrix language: its tables are kept, and whatever is wrong with them only costs time."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import lark
import pytest

from hesse.frontends.language.parser import parser

TEXTS = [
    "x'*A*x",
    "symmetric matrix A(n,n); sum(A.*B) where B = -A^2",
    "H[i,j] = 2*delta[i,j]*x[i]",
    'einsum("ij,j->i", A, x)',
]


def parses(made: lark.Lark) -> list[lark.ParseTree]:
    return [made.parse(text) for text in TEXTS]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of hesse in an empty cache directory."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "hesse"


@pytest.fixture
def builds(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The grammars that tables are computed from."""
    grammars: list[str] = []
    original = lark.Lark.__init__

    def counted(self: lark.Lark, grammar: str, **options: object) -> None:
        grammars.append(grammar)
        original(self, grammar, **options)

    monkeypatch.setattr(lark.Lark, "__init__", counted)
    return grammars


def test_tables_are_computed_once_and_kept(folder: Path, builds: list[str]) -> None:
    first = parses(parser.__wrapped__())
    (kept,) = folder.iterdir()
    assert len(builds) == 1
    assert parses(parser.__wrapped__()) == first
    assert len(builds) == 1
    assert list(folder.iterdir()) == [kept]


@pytest.mark.parametrize("damage", [lambda old: b"", lambda old: old[:-1], lambda old: b"x" + old[1:]])
def test_damaged_tables_are_computed_again(
    folder: Path, builds: list[str], damage: Callable[[bytes], bytes]
) -> None:
    first = parses(parser.__wrapped__())
    (kept,) = folder.iterdir()
    kept.write_bytes(damage(kept.read_bytes()))
    assert parses(parser.__wrapped__()) == first
    assert len(builds) == 2
    assert parses(parser.__wrapped__()) == first
    assert len(builds) == 2


def test_another_version_of_lark_has_its_own_tables(
    folder: Path, builds: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    parser.__wrapped__()
    monkeypatch.setattr(lark, "__version__", "0")
    parser.__wrapped__()
    assert len(builds) == len(list(folder.iterdir())) == 2


def test_tables_that_cannot_be_kept(
    tmp_path: Path, builds: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cache directory that cannot be written, and a relative one, which is not used."""
    (tmp_path / "file").touch()
    monkeypatch.chdir(tmp_path)
    for count, value in enumerate([str(tmp_path / "file"), "relative"], start=1):
        monkeypatch.setenv("XDG_CACHE_HOME", value)
        assert parses(parser.__wrapped__())
        assert len(builds) == count
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_first_uses_at_the_same_time(folder: Path) -> None:
    code = 'import hesse; print(hesse.parse("x\'*A*x"))'
    running = [subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) for _ in range(4)]
    assert {process.communicate()[0].strip() for process in running} == {b"x'*A*x"}
    assert len(list(folder.iterdir())) == 1
