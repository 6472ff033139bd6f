"""Run the commands on the pages and write their outputs below them: `python docs/command_line.py`.

A test compares the pages with what this script would write.
"""

from __future__ import annotations

import contextlib
import io
import re
import shlex
import tempfile
from pathlib import Path

from hesse.cli import main

DOCS = Path(__file__).parent
PAGES = (DOCS / "command-line.md", DOCS / "index.md", DOCS.parent / "README.md")
"""The pages with blocks of commands."""
BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def rewritten(page: str) -> str:
    """The page with the outputs of its commands as they are now."""
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        return BLOCK.sub(lambda block: f"```console\n{_session(block[1])}```", page)


def _session(block: str) -> str:
    commands = [line for line in block.splitlines() if line.startswith("$ hesse ")]
    return "\n".join(f"{command}\n{_output(command)}" for command in commands)


def _output(command: str) -> str:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        main(shlex.split(command.removeprefix("$ hesse ")))
    return printed.getvalue()


if __name__ == "__main__":
    for page in PAGES:
        page.write_text(rewritten(page.read_text(encoding="utf-8")), encoding="utf-8")
