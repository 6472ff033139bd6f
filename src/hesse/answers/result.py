"""The answer to a question: types, the derivative in text and LaTeX, its layout, and convexity."""

from __future__ import annotations

import re
from dataclasses import dataclass

from hesse.answers.question import Question, declared_names, derivative_of, formula_of
from hesse.api.declarations import type_words
from hesse.api.formula import Formula
from hesse.errors import VerificationError
from hesse.printing import layout_note, vec_note


@dataclass(frozen=True)
class VariableAnswer:
    """A variable of the formula: its type in words, its sizes, and whether the text itself declares it."""

    name: str
    type: str
    sizes: tuple[int | str, ...]
    declared: bool


@dataclass(frozen=True)
class Reading:
    """A formula as it was understood."""

    formula: str
    formula_latex: str
    variables: tuple[VariableAnswer, ...]
    sizes: tuple[str, ...]


@dataclass(frozen=True)
class ConvexityAnswer:
    """Whether the function is convex in a variable, and why."""

    variable: str
    verdict: str
    reason: str


@dataclass(frozen=True)
class KroneckerAnswer:
    """A derivative of order 3 or 4 as a matrix, a name for it, and what it is: vec(dF) = M*vec(dX)."""

    name: str
    matrix: str
    """A formula of the language, with declarations of the sizes that it uses as numbers."""
    matrix_latex: str
    note: str


@dataclass(frozen=True)
class Answer(Reading):
    """Everything about a derivative that does not depend on sizes."""

    by: tuple[str, ...]
    title: str
    derivative: str
    derivative_latex: str
    shape: tuple[int | str, ...]
    layout: str
    """What the axes of the derivative mean."""
    kronecker: KroneckerAnswer | None
    """The derivative of or by matrices as a matrix, if its order is 3 or 4 and it has such a form."""
    kronecker_problem: str
    """Why the matrix is not shown although there is one: it could not be verified; empty if it is shown."""
    convexity: tuple[ConvexityAnswer, ...]


def reading(question: Question) -> Reading:
    """How the formula itself is understood.

    >>> [(v.name, v.type, v.sizes) for v in reading(Question("A*x")).variables]
    [('A', 'matrix', ('m', 'n')), ('x', 'vector', ('n',))]
    """
    return _reading(question, formula_of(question))


def _reading(question: Question, formula: Formula) -> Reading:
    declared = declared_names(question)
    return Reading(
        formula=str(formula),
        formula_latex=formula.to("latex"),
        variables=tuple(
            VariableAnswer(variable.name, type_words(variable), variable.shape, variable.name in declared)
            for variable in formula.variables
        ),
        sizes=formula.open_sizes,
    )


def answer(question: Question) -> Answer:
    """The answer to a question; what it says has been compared with a finite difference.

    >>> found = answer(Question("x'*A*x", ("x",), {"A": "symmetric matrix"}))
    >>> found.derivative, found.shape
    ('2*A*x', ('n',))
    """
    return answer_of(question, derivative_of(question))


def answer_of(question: Question, derivative: Formula) -> Answer:
    """The answer to a question whose derivative is known."""
    formula = derivative.function
    kronecker, problem = _kronecker(derivative)
    return Answer(
        **vars(_reading(question, formula)),
        by=question.by,
        title=_title(derivative),
        derivative=str(derivative),
        derivative_latex=derivative.to("latex"),
        shape=derivative.node.shape,
        layout=layout_note(derivative.node, formula.node.shape, derivative.differentiated_by),
        kronecker=kronecker,
        kronecker_problem=problem,
        convexity=_convexity(formula, question.by),
    )


def _kronecker(derivative: Formula) -> tuple[KroneckerAnswer | None, str]:
    """The derivative as a matrix, or a sentence that says so if only this form of it cannot be verified.

    Of tensors over vectors only, such as a third derivative by x, nobody expects one.

    >>> form, _ = _kronecker(formula_of(Question("A*X*B")).diff("X"))
    >>> form.matrix
    "kron(B', A)"
    """
    groups = (derivative.function.node.rank, *(by.rank for by in derivative.differentiated_by))
    if max(groups) < 2:
        return None, ""
    derivative.verify()
    try:
        found = derivative.kronecker()
    except VerificationError as problem:
        return None, f"The derivative as a matrix is not shown: {problem}."
    if found is None:
        return None, ""
    function = derivative.function
    taken = {variable.name for variable in function.variables} | set(re.findall(r"\w+", found.text))
    note = vec_note(found.text, function.node.shape, derivative.differentiated_by, taken)
    return KroneckerAnswer(note.name, derivative.to("kronecker"), found.latex, note.text), ""


def _title(derivative: Formula) -> str:
    """What the derivative is called.

    >>> _title(formula_of(Question("x'*x")).diff("x", "x"))
    'Hessian by x'
    """
    scalar = derivative.function.node.rank == 0
    by = [variable.name for variable in derivative.differentiated_by]
    match len(by):
        case 0:
            return "Value"
        case 1 if derivative.node.rank:
            kind = "Gradient" if scalar else "Jacobian"
        case 1:
            kind = "Derivative"
        case 2 if scalar and by[0] == by[1] and derivative.node.rank:
            return f"Hessian by {by[0]}"
        case order:
            kind = f"Derivative of order {order}"
    return f"{kind} by {', '.join(by)}"


def _convexity(formula: Formula, names: tuple[str, ...]) -> tuple[ConvexityAnswer, ...]:
    """Convexity in each variable of the derivative, where the function is scalar."""
    if formula.node.rank:
        return ()
    found = {name: formula.convexity(name) for name in dict.fromkeys(names)}
    return tuple(ConvexityAnswer(name, verdict, reason) for name, (verdict, reason) in found.items())
