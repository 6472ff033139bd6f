"""Every notation and language that a derivative can be written in."""

from hesse.api.formula import NOTATIONS
from hesse.export import LANGUAGES

ALL_NOTATIONS = (*NOTATIONS, "kronecker", *LANGUAGES)
