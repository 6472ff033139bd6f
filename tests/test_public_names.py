"""The package itself: public names are loaded when they are used, and are what the imports say."""

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import hesse

IMPORTED = [
    (node.module, alias.name)
    for node in ast.walk(ast.parse(Path(hesse.__file__).read_text()))
    if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("hesse.")
    for alias in node.names
]


@pytest.mark.parametrize(("home", "name"), IMPORTED, ids=[name for _, name in IMPORTED])
def test_a_name_is_what_type_checkers_take_it_for(home, name):
    assert getattr(hesse, name) is getattr(importlib.import_module(home), name)
    assert name in dir(hesse)


def test_all_names_are_imported_for_type_checkers():
    assert sorted(hesse.__all__) == sorted(name for _, name in IMPORTED)


def test_importing_loads_nothing_else():
    code = (
        "import sys, hesse\n"
        "loaded = {name.partition('.')[0] for name in sys.modules}\n"
        "assert not loaded & {'numpy', 'scipy', 'torch', 'jax', 'lark', 'optree'}, loaded\n"
        "assert hesse.grad.__name__ == 'grad'\n"
        "assert not {'torch', 'jax', 'lark'} & {name.partition('.')[0] for name in sys.modules}\n"
        "assert hesse.frontends.dispatch.implements\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_name_that_does_not_exist_is_refused():
    with pytest.raises(AttributeError, match="module 'hesse' has no attribute 'gradient'"):
        _ = hesse.gradient
