"""The requests of the JSON interface and their limits. Answers are the dataclasses of `hesse.answers`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from hesse.answers import HIGHEST_ORDER, LARGEST_SIZE, StepAnswer, Structure
from hesse.answers.notations import ALL_NOTATIONS
from hesse.web.limits import LONGEST_FORMULA, LONGEST_NAME, LONGEST_TYPE, MOST_NAMES

Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z][A-Za-z0-9_]*$", max_length=LONGEST_NAME)]
Words = Annotated[str, StringConstraints(max_length=LONGEST_TYPE)]
Size = Annotated[int, Field(ge=1, le=LARGEST_SIZE)]
Notation = Annotated[str, StringConstraints(pattern=f"^({'|'.join(ALL_NOTATIONS)})$")]


class ReadRequest(BaseModel):
    """A formula, and types of its variables that are not the usual ones."""

    model_config = ConfigDict(extra="forbid", strict=True)

    formula: Annotated[str, StringConstraints(max_length=LONGEST_FORMULA)]
    types: Annotated[dict[Name, Words], Field(max_length=MOST_NAMES)] = {}


class DeriveRequest(ReadRequest):
    """The same, and what to differentiate by, one variable after the other."""

    by: Annotated[list[Name], Field(max_length=HIGHEST_ORDER)] = []
    symmetric: Literal["free", "projected", "half"] = "free"


class RenderRequest(DeriveRequest):
    """The same, and the notation or language to write the derivative in."""

    notation: Notation


class CostRequest(DeriveRequest):
    """The same, with numbers for sizes."""

    sizes: Annotated[dict[Name, Size], Field(max_length=MOST_NAMES)] = {}


@dataclass(frozen=True)
class StepsAnswer:
    """The derivation, rule by rule."""

    steps: tuple[StepAnswer, ...]


@dataclass(frozen=True)
class Rendered:
    """A derivative in a notation."""

    notation: str
    text: str


@dataclass(frozen=True)
class GraphDrawing:
    """The expression graph as a picture."""

    svg: str
    nodes: int
    edges: int


@dataclass(frozen=True)
class StructureAnswer:
    """The structure of a derivative, if it is a matrix in some view."""

    structure: Structure | None


@dataclass(frozen=True)
class Problem:
    """What was wrong, and where in the text."""

    kind: str
    message: str
    position: int | None = None


@dataclass(frozen=True)
class ErrorAnswer:
    """The answer to a request that cannot be answered."""

    error: Problem


@dataclass(frozen=True)
class About:
    """What the server offers."""

    version: str
    notations: tuple[str, ...]
    types: tuple[str, ...]
    symmetric: tuple[str, ...]
    highest_order: int
    longest_formula: int
    largest_size: int
    seconds: float
