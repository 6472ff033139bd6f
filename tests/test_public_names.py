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


def test_libraries_that_are_not_installed_are_named() -> None:
    script = """
import sys
import numpy as np

class NotInstalled:
    def find_spec(self, name, path, target=None):
        if name in ("torch", "jax"):
            raise ModuleNotFoundError(name=name)

sys.meta_path.insert(0, NotInstalled())
import hesse
print(hesse.grad(lambda x: np.sum(x**2))(np.ones(2)))
for attempt in (
    lambda: hesse.grad(np.sum, backend="jax")(np.ones(2)),
    lambda: hesse.grad(np.sum).compile(backend="torch")(np.ones(2)),
    lambda: hesse.torch.functional,
):
    try:
        attempt()
    except hesse.MissingPackageError as error:
        print(error)
"""
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert found.stdout.splitlines() == [
        "[2. 2.]",
        "the backend 'jax' needs jax, which is not installed; run `pip install 'jax'`",
        "the backend 'torch' needs torch, which is not installed; run `pip install 'torch'`",
        "hesse.torch needs torch, which is not installed; run `pip install 'torch'`",
    ]
