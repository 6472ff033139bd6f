"""The errors hesse raises, one tree:

HesseError
├── ShapeError        sizes or ranks that do not fit together (also a ValueError)
├── NotationError     text that does not parse: einsum strings, formulas (also a ValueError)
├── ArgumentError     a wrong argument to a public function (also a ValueError)
│   └── NotComputedError   a derivative that was not computed before it was asked for (also a KeyError)
├── TracingError      user code that cannot be traced, or a function hesse does not know (also a TypeError)
├── DifferentiationError   an operation or a dtype without a derivative (also a TypeError)
├── MemoryLimitError  a result that would not fit into memory (also a MemoryError)
├── MissingKernelError     a target cannot compute or write an operation (also a NotImplementedError)
├── ConvergenceError  an equation for which no solution was found (also an ArithmeticError)
├── VerificationError a derivative that a finite difference does not confirm (also an ArithmeticError)
└── MissingPackageError    an operation needs a package that is not installed (also an ImportError)

Each message says what was asked, what was found and what to do.
"""

from __future__ import annotations


class HesseError(Exception):
    """Base class of every error that hesse raises on purpose."""


class ShapeError(HesseError, ValueError):
    """Sizes or ranks do not fit together; `position` is the offset in the text, if there was one."""

    position: int | None = None


class NotationError(HesseError, ValueError):
    """Text that does not parse; `position` is the offset of the problem in the text."""

    position: int | None = None


class ArgumentError(HesseError, ValueError):
    """A wrong argument to a public function."""


class NotComputedError(ArgumentError, KeyError):
    """A derivative that was not computed before it was asked for."""

    __str__ = Exception.__str__  # a KeyError shows the repr of its message


class TracingError(HesseError, TypeError):
    """User code that cannot be traced."""


class DifferentiationError(HesseError, TypeError):
    """An operation or a dtype that has no derivative."""


class MemoryLimitError(HesseError, MemoryError):
    """A result that would not fit into memory."""


class MissingPackageError(HesseError, ImportError):
    """An operation needs a package that is not installed."""

    @classmethod
    def of(cls, what: str, package: str) -> MissingPackageError:
        """The error for what needs a package."""
        return cls(f"{what} needs {package}, which is not installed; run `pip install '{package}'`")


class MissingKernelError(HesseError, NotImplementedError):
    """A target cannot compute an operation."""


class ConvergenceError(HesseError, ArithmeticError):
    """No solution of an equation was found."""


class VerificationError(HesseError, ArithmeticError):
    """A derivative that does not agree with a finite difference, or could not be compared with one."""
