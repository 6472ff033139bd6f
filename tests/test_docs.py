"""The documentation is executed: every block of Python in it, every docstring example, the demonstration."""

from __future__ import annotations

import contextlib
import doctest
import importlib
import importlib.util
import io
import itertools
import pkgutil
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import pytest

import hesse
from hesse.backends.numpy import elementwise
from hesse.ops.registry import ELEMENTWISE

ROOT = Path(__file__).parent.parent
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")])
FENCE = re.compile(r"^```(?P<language>\w*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
FLAGS = doctest.ELLIPSIS


class Block(NamedTuple):
    """A fenced block of a page; `output` is the text block right after it, if there is one."""

    language: str
    text: str
    line: int
    output: str | None


def blocks(page: Path) -> Iterator[Block]:
    """The fenced blocks of a page in order."""
    content = page.read_text(encoding="utf-8")
    found = list(FENCE.finditer(content))
    for block, following in itertools.zip_longest(found, found[1:]):
        output = None
        if following is not None and following["language"] == "text":
            adjacent = not content[block.end() : following.start()].strip()
            output = following["text"] if adjacent else None
        line = content.count("\n", 0, block.start()) + 2
        yield Block(block["language"], block["text"], line, output)


def run_session(block: Block, namespace: dict[str, Any], name: str) -> None:
    """A block with prompts, as a doctest that shares the names of its page."""
    test = doctest.DocTestParser().get_doctest(block.text, namespace, name, name, block.line - 1)
    report = io.StringIO()
    runner = doctest.DocTestRunner(verbose=False, optionflags=FLAGS)
    runner.run(test, out=report.write, clear_globs=False)
    namespace.update(test.globs)
    assert runner.failures == 0, report.getvalue()


def run_script(block: Block, namespace: dict[str, Any], name: str) -> None:
    """A block without prompts; what it prints must be the text block after it."""
    source = "\n" * (block.line - 1) + block.text
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(source, name, "exec"), namespace)
    if block.output is not None:
        checker = doctest.OutputChecker()
        assert checker.check_output(block.output, printed.getvalue(), FLAGS), printed.getvalue()


@pytest.fixture
def restored_tables() -> Iterator[None]:
    """What a page enters into the tables of operations is gone after it."""
    tables: list[dict[str, Any]] = [ELEMENTWISE, elementwise.KERNELS]
    copies = [dict(table) for table in tables]
    yield
    for table, copy in zip(tables, copies, strict=True):
        table.clear()
        table.update(copy)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
@pytest.mark.usefixtures("restored_tables")
def test_page_runs(page: Path) -> None:
    name = str(page.relative_to(ROOT))
    namespace: dict[str, Any] = {"__name__": "__page__"}
    for block in blocks(page):
        if block.language in ("python", "pycon") and ">>>" in block.text:
            run_session(block, namespace, name)
        elif block.language == "python":
            run_script(block, namespace, name)


def test_a_wrong_output_is_noticed() -> None:
    wrong = Block("pycon", ">>> 1 + 1\n3\n", 1, None)
    with pytest.raises(AssertionError, match="Expected"):
        run_session(wrong, {}, "wrong")
    with pytest.raises(AssertionError, match="2"):
        run_script(Block("python", "print(1 + 1)\n", 1, "3\n"), {}, "wrong")


def modules() -> list[str]:
    """All modules of the package."""
    found = pkgutil.walk_packages(hesse.__path__, "hesse.")
    return ["hesse", *sorted(module.name for module in found)]


@pytest.mark.parametrize("name", modules())
def test_docstring_examples(name: str) -> None:
    failures, _ = doctest.testmod(importlib.import_module(name), optionflags=FLAGS)
    assert failures == 0


@pytest.mark.parametrize("name", modules())
def test_all_is_sorted_and_importable(name: str) -> None:
    module = importlib.import_module(name)
    listed = getattr(module, "__all__", None)
    if listed is None:
        assert not hasattr(module, "__path__") or name in ("hesse.backends",), f"{name} needs __all__"
        return
    assert list(listed) == sorted(set(listed), key=_isort_key)
    assert [entry for entry in listed if not hasattr(module, entry)] == []


def _isort_key(entry: str) -> tuple[int, list[Any]]:
    """The order of ruff: CONSTANTS, then Classes, then functions, numbers in them by value."""
    kind = 0 if entry.isupper() else 1 if entry[:1].isupper() else 2
    return kind, [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", entry)]


def load(path: Path) -> ModuleType:
    """A script as a module."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def test_operation_table_is_current() -> None:
    generate = load(ROOT / "docs" / "generate.py")
    committed = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
    assert generate.page() == committed, "run `python docs/generate.py`"


def test_table_of_torch_operations_is_current() -> None:
    generate = load(ROOT / "docs" / "torch_operations.py")
    committed = (ROOT / "docs" / "torch-operations.md").read_text(encoding="utf-8")
    assert generate.page() == committed, "run `python docs/torch_operations.py`"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_to_files_lead_somewhere(page: Path) -> None:
    prose = re.sub(r"`[^`\n]*`", "", FENCE.sub("", page.read_text(encoding="utf-8")))
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", prose)
    assert [link for link in links if not (page.parent / link).exists()] == []


def test_reference_lists_every_public_name() -> None:
    listed = re.findall(r"^::: hesse\.(\w+)$", (ROOT / "docs" / "api.md").read_text(), re.MULTILINE)
    assert sorted(listed) == sorted(hesse.__all__)


def test_demonstration(capsys: pytest.CaptureFixture[str]) -> None:
    demo = load(ROOT / "examples" / "demo.py")
    demo.main(small=True)
    printed = capsys.readouterr().out
    assert "All ways agree." in printed
    assert all(example.title in printed for example in demo.examples(small=True))
