"""Texts that mean nothing: every message, and the place it points at."""

from __future__ import annotations

import pytest

import hesse
from hesse.frontends.language.source import DEEPEST_NESTING, LONGEST_TEXT, MOST_TERMS

# the text, a part of the message, and the line of carets under the text
SYNTAX = [
    ("", "ends too early: expected an operand", "^"),
    ("x +", "ends too early: expected an operand", "   ^"),
    ("(A*x", "ends too early: expected an operator or ')'", "    ^"),
    ("x[i", "ends too early: expected ',' or ']'", "   ^"),
    ("x y", "an operator is missing between x and y: a product is x*y, a function x(y)", "^^^"),
    ("x y z", "an operator is missing between x and y", "^^^"),
    ("A x + b", "an operator is missing between A and x", "^^^"),
    ("x'*A  x", "an operator is missing between A and x", "   ^^^^"),
    ("vector x(n); x y", "an operator is missing between x and y", "             ^^^"),
    ("x + p where p = x y", "an operator is missing between x and y", "                ^^^"),
    ("positive vector x", "ends too early: expected a name", "                 ^"),
    ("norm(x)", "there is no function norm; write norm2(x)\n", "^^^^^^^"),
    ("mean(A*x)", "no function mean; write sum(A*x)/n with the name of its size", "^^^^^^^^^"),
    ("dot(x,A*y)", "there is no function dot; write x'*(A*y)\n", "^^^^^^^^^^"),
    ("outer(x)", "there is no function outer; write x*y'\n", "^^^^^^^^"),
    ("f(x)", "there is no function f; write * for a product\n", "^^^^"),
    ("max(x,y,z)", "max takes 1 or 2 arguments, not 3", "^^^^^^^^^^"),
    ("positive matrix X(n); X", "X has 2 axes and so needs 2 sizes, not 1", "                ^^^^"),
    ("A*x)", "')' cannot stand here: expected an operator", "   ^"),
    ("3 4", "'4' cannot stand here: expected an operator", "  ^"),
    ("A*/x", "'/' cannot stand here: expected an operand", "  ^"),
    ("sin()*", "ends too early", "      ^"),
    ("A@B", "the character '@' has no meaning here; expected an operator", " ^"),
    ("x.'", "the character '.' has no meaning here", " ^"),
    ("x[1]", "'1' cannot stand here: expected a name", "  ^"),
    ("x where", "ends too early: expected an operand", "       ^"),
    ("x where 3", "a where clause consists of definitions", "        ^"),
    ("A*x = 3", "the left side of = is a name, or a name with distinct labels", "^^^"),
    ("H[i,i] = x[i]", "the left side of = is a name, or a name with distinct labels", "^^^^^^"),
    ("a^b^c", "powers of powers need parentheses: (a^b)^c or a^(b^c)", "^^^^^"),
    ("1e999*x", "the number is too large", "^^^^^"),
    ('sin("ij")', "sin takes no text in quotes; only einsum does", "    ^^^^"),
    ('x+"ij"', "a text in quotes can only be the first argument of einsum", "  ^^^^"),
    ('einsum("i1", x)', "the notation of einsum is letters", "       ^^^^"),
    ('einsum("i,j->ij", x)', "einsum has 2 terms in its notation but 1 operands", "       ^^^^^^^^^"),
    ('einsum("i->ij", x)', "the result has the index j, which no operand has", "^" * 18),
    ("A *[ij,jk] B", "']' cannot stand here: expected ','", "         ^"),
    ("A *[ij,jk,il] B", "the result has the index l, which no operand has", "^" * 15),
    ("log*x", "log is a word of the language and cannot name a variable", "^^^"),
    ("matrix*x", "matrix is a word of the language", "^^^^^^"),
    ("p where sum = x", "sum is a word of the language", "        ^^^"),
    ("vector eye; x", "eye is a word of the language", "       ^^^"),
    ("foo(x)", "there is no function foo; write * for a product", "^^^^^^"),
    ("sin(x,y)", "sin takes 1 argument, not 2", "^^^^^^^^"),
    ("sum(x,0,1)", "sum takes 1 or 2 arguments, not 3", "^^^^^^^^^^"),
    ("kron(x)", "kron takes 2 arguments, not 1", "^^^^^^^"),
    ("commutation()", "commutation needs the sizes of a matrix: commutation(m, n)", "^^^^^^^^^^^^^"),
    ("commutation(3)", "commutation takes 2 sizes, not 1", "^^^^^^^^^^^^^^"),
    ("inv()", "inv takes 1 argument, not 0", "^^^^^"),
    ("vector(1,2,3)", "vector takes 1 size, not 2", "^^^^^^^^^^^^^"),
    ("vector(1,a+b)", "a size is a name, a whole number", "         ^^^"),
    ("eye(1.5)", "a size is a name, a whole number", "    ^^^"),
    ("tensor(1)", "tensor needs the sizes of its axes", "^^^^^^^^^"),
    ("foo matrix A; A", "foo is no type; a type is made of the words symmetric", "^^^^^^^^^^"),
    ("vector matrix A; A", "vector and matrix are two types", "^^^^^^^^^^^^^"),
    ("vector x(m,n); x", "x has 1 axis and so needs 1 size, not 2", "       ^^^^^^"),
    ("vector x(0); x", "a size is a name or a whole number from 1", "         ^"),
    ("tensor T; T[i]", "a tensor needs its order or its sizes", "       ^"),
    ("tensor T(99); T[i]", "a tensor has at most 16 axes", "       ^^^^^"),
    ("symmetric vector x; x", "only a matrix can be symmetric", "                 ^"),
    ("psd antisymmetric matrix A; A", "an antisymmetric matrix cannot be psd too", "^" * 24),
    ("vector x; matrix x; x", "x is declared twice", "       ^         ^"),
    ("vector p; p where p = x", "p has a type and a definition", "                  ^"),
    ("p where p = x; p = y", "p is defined twice", "        ^      ^"),
    ("p where p = 2*p", "p is defined by itself", "        ^"),
    ("p where p = q; q = 2*p", "p is defined by itself", "        ^"),
    ("vector n(n); n", "n is the name of a size and cannot be a variable", "             ^"),
    ("x[i]*A", "index and matrix notation cannot be mixed in one term", "^^^^ ^"),
    ("A+x[i]", "index and matrix notation cannot be mixed in one term", "^ ^^^^"),
    ("max(x[i], y)", "index and matrix notation cannot be mixed in one term", "    ^^^^  ^"),
    ("x[i]'", "x[i] is a term with the indices i: an entry, which has no transpose", "^^^^^"),
    ("(x[i])[j]", "x[i] already has indices", "^^^^^^^^^"),
    ("inv(A[i,j])", "inv is a function of whole tensors, but A[i,j] is a term", "    ^^^^^^"),
    ("sum(x[i])", "sums over indices are written sum[i](...)", "    ^^^^"),
    ("sum[i](x)", "cannot sum over i: i is no index of x", "^^^^^^^^^"),
    ("sum[i,i](x[i])", "cannot sum over i, i: an index is named twice", "^" * 14),
    ("1/0", "division by 0, which is zero", "  ^"),
    ("x./(y-y)", "division by y-y, which is zero", "    ^^^"),
    ("x[i]/0", "division by 0, which is zero", "     ^"),
    ("H[i] = x[i]*y[j]", "the left side has the indices i, the right side has i, j", "^^^^   ^^^^^^^^^"),
    ("H[i] = x", "the left side has indices, but x is a column vector without any", "^^^^   ^"),
]

SHAPES = [
    ("A+x", "+ needs operands of one shape, but A is a matrix and x is a column vector", "^ ^"),
    ("x+y'", "+ needs operands of one shape, but x is a column vector and y' is a row", "^ ^^"),
    ("A.*x", ".* needs operands of one shape", "^  ^"),
    ("max(A, x)", "max needs operands of one shape", "    ^  ^"),
    ("x*y", "they have no product; write x.*y for entries, x'*y for the inner", "^ ^"),
    ("x*A", "they have no product; is a transpose missing?", "^ ^"),
    ("tensor T(3); T*x", "write products of tensors with indices", "             ^ ^"),
    ("tensor T(3); T'", "T is a tensor of order 3; only vectors and matrices", "             ^^"),
    ("1/x", "division is by a scalar, but x is a column vector; write ./", "  ^"),
    ("x^2", "x is a column vector; ^ takes a scalar to any power", "^ ^"),
    ("A^0.5", "A is a matrix; ^ takes a scalar to any power and a square matrix to an integer", "^ ^^^"),
    ("A^101", "an integer of at most 100", "^ ^^^"),
    ("2^x", "the exponent x is a column vector; ^ needs a scalar", "  ^"),
    ("det(x)", "det needs a matrix, but x is a column vector", "    ^"),
    ("diag(a)", "diag needs a vector or a matrix, but a is a scalar", "     ^"),
    ("vector(x)", "vector repeats a scalar, but x is a column vector", "       ^"),
    ("softmax(a)", "softmax needs a vector or a matrix, but a is a scalar", "        ^"),
    ("sum(A,2)", "the second argument of sum is an axis: A is a matrix with the axes 0, 1", "      ^"),
    ("sum(a,0)", "a is a scalar with the axes none", "      ^"),
    ("expm_chain(A,9)", "the number of exponentials, from 1 to 8", "             ^"),
    ("softmax(x,B)", "the second argument of softmax is an axis", "          ^"),
    ("kron(A,a)", "kron needs two matrices, two columns, two rows, or a vector and a matrix", "     ^ ^"),
    ("kron(x,y')", "x is a column vector and y' is a row", "     ^ ^^"),
    ("matrix A; A[i]", "A is a matrix and has 2 indices, not 1", "          ^^^^"),
    ("A[i,j]*A[i]", "A is a matrix and has 2 indices, not 1", "       ^^^^"),
    ("matrix A; A *[i,j,ij] x", "A is a matrix, but its axes are named i", "          ^"),
    ("matrix A(m,n); vector x(k); A*x", "the sizes n and k must be equal: a product needs as many columns",
     "       ^^^^^^         ^^^^  ^ ^"),
    ("vector x(3), y(4); x+y", "the sizes 3 and 4 must be equal: + needs operands of one shape",
     "       ^^^^  ^^^^  ^ ^"),
    ("vector x(3); vector z(4); x+y+z", "the sizes 3 and 4 must be equal", "       ^^^^         ^^^^  ^^^ ^"),
    ("matrix A(2,3); det(A)", "2 and 3 must be equal: det needs a square matrix", "       ^^^^^^      ^"),
    ("matrix A(2,3); tr(A)", "tr needs a square matrix", "       ^^^^^^     ^"),
    ("matrix A(2,3); A^2", "A^2 needs a square matrix", "       ^^^^^^  ^"),
    ("symmetric matrix A(m,n); A", "the sizes m and n must be equal: A is symmetric", " " * 17 + "^^^^^^"),
    ("vector x(3), y(4); x[i]*y[i]", "they have the same index", "       ^^^^  ^^^^  ^^^^ ^^^^"),
    ("vector x(3), y(4); x[i]+y[i]", "they have the same index i", "       ^^^^  ^^^^  ^^^^ ^^^^"),
    ("vector x(3), y(4); x *[i,i,i] y", "their axes have the same letter", "       ^^^^  ^^^^  ^          ^"),
    ("matrix A(2,3); reshape(A,2,2)", "A has 2*3 and the result has 2*2", None),
    ("reshape(A,2,6)", "A has ?*? and the result has 2*6; declare the sizes", None),
    ("reshape(a,2)", "a has 1 and the result has 2", None),
    ("x + vec(x*x')", "must be equal: + needs operands of one shape", "^   ^^^^^^^^^"),
    ("vector x(7); matrix A(2,3); vec(A)+x", "the sizes 3*2 and 7 must be equal", None),
    ("matrix A(2,3), B(3,2); vec(A) + vec(kron(A,B))", "they are sizes of one axis", None),
    ("p where p=kron(q,q); q=kron(r,r); r=kron(s,s); s=kron(A,A)", "at most 8 sizes", None),
]  # fmt: skip


@pytest.mark.parametrize(("text", "message", "carets"), SYNTAX, ids=[row[0] for row in SYNTAX])
def test_text_without_meaning(text: str, message: str, carets: str | None) -> None:
    _expect(hesse.NotationError, text, message, carets)


@pytest.mark.parametrize(("text", "message", "carets"), SHAPES, ids=[row[0] for row in SHAPES])
def test_shapes_that_do_not_fit(text: str, message: str, carets: str | None) -> None:
    _expect(hesse.ShapeError, text, message, carets)


def _expect(kind: type[hesse.HesseError], text: str, message: str, carets: str | None) -> None:
    with pytest.raises(kind) as caught:
        hesse.parse(text)
    said = str(caught.value)
    assert message in said
    first, *_, shown, marked = said.split("\n")
    assert first
    assert shown == f"  {text}"
    if carets is not None:
        assert marked.removeprefix("  ") == carets
    position = caught.value.position
    assert position is not None
    assert marked[2 + position] == "^"


def test_long_lines_are_cut_around_the_place() -> None:
    text = "+".join(["x"] * 200) + "+A"
    with pytest.raises(hesse.ShapeError) as caught:
        hesse.parse(text)
    *_, shown, marked = str(caught.value).split("\n")
    assert len(shown) <= 102
    assert "^" in marked


def test_the_line_with_the_problem_is_shown() -> None:
    with pytest.raises(hesse.NotationError) as caught:
        hesse.parse("matrix A;\nA*x +\n  @")
    assert str(caught.value).split("\n")[1:] == ["    @", "    ^"]
    assert caught.value.position == 18


def test_two_places_on_two_lines() -> None:
    with pytest.raises(hesse.ShapeError) as caught:
        hesse.parse("vector x(3);\nvector y(4);\nx + y")
    assert str(caught.value).split("\n")[1:] == [
        "  vector x(3);",
        "         ^^^^",
        "  vector y(4);",
        "         ^^^^",
        "  x + y",
        "  ^   ^",
    ]


@pytest.mark.parametrize(
    ("types", "message"),
    [
        ({"A": "matrx"}, "matrx is no type"),
        ({"A": "matrix(m"}, "the type of A is words and sizes"),
        ({"A": ""}, "the type of A is words and sizes"),
        ({"A": "matrix(m,-1)"}, "a size is a name or a whole number above 0, not '-1'"),
        ({"A": "matrix(m)"}, "A has 2 axes and so needs 2 sizes, not 1"),
    ],
)
def test_types_that_are_none(types: dict[str, str], message: str) -> None:
    with pytest.raises(hesse.NotationError) as caught:
        hesse.parse("x'*A*x", **types)
    assert message in str(caught.value)
    assert caught.value.position == 0


def test_a_type_in_the_text_and_by_keyword() -> None:
    with pytest.raises(hesse.NotationError, match="A is declared in the text and by keyword") as caught:
        hesse.parse("matrix A; A", A="matrix")
    assert caught.value.position == 7


def test_types_of_variables_that_do_not_occur() -> None:
    with pytest.raises(hesse.ArgumentError, match="there is no variable B in the formula; it has A, x"):
        hesse.parse("A*x", B="matrix")


def test_a_formula_is_a_text() -> None:
    with pytest.raises(hesse.ArgumentError, match="a formula is a text, not 3"):
        hesse.parse(3)  # type: ignore[arg-type]
    with pytest.raises(hesse.ArgumentError, match="the type of A is a text, not 2"):
        hesse.parse("A", A=2)  # type: ignore[arg-type]


def test_limits() -> None:
    with pytest.raises(hesse.NotationError, match=f"at most {LONGEST_TEXT} characters") as caught:
        hesse.parse("x" * (LONGEST_TEXT + 1))
    assert caught.value.position == LONGEST_TEXT
    with pytest.raises(hesse.NotationError, match=f"at most {MOST_TERMS} terms") as caught:
        hesse.parse("+".join(["a"] * (MOST_TERMS // 2 + 1)))
    assert caught.value.position is not None
    for text in ("(" * 4000 + "x", "-" * 4000 + "x", "sin(" * 1000 + "x" + ")" * 1000, "x" + "'" * 4000):
        with pytest.raises(hesse.NotationError) as caught:
            hesse.parse(text)
        assert caught.value.position is not None
    with pytest.raises(hesse.NotationError, match=f"nested at most {DEEPEST_NESTING} deep"):
        hesse.parse("sin(" * (DEEPEST_NESTING + 1) + "x" + ")" * (DEEPEST_NESTING + 1))


def test_terms_with_too_many_indices() -> None:
    with pytest.raises(hesse.NotationError, match="a tensor has at most 16 axes, not 17") as caught:
        hesse.parse("*".join(f"x[i{k}]" for k in range(17)))
    assert caught.value.position is not None
    for operator in "*+":
        with pytest.raises(hesse.NotationError, match="a term has at most 50 indices, not 51") as caught:
            hesse.parse(operator.join(f"x[i{k}]" for k in range(51)))
        assert caught.value.position == 0


def test_formulas_at_the_limits_work() -> None:
    depth = DEEPEST_NESTING - 2
    deep = hesse.parse("tanh(" * depth + "a" + ")" * depth)
    assert deep.diff("a").evaluate(a=0.0) == 1.0
    long = hesse.parse("+".join(["sin(a)"] * (MOST_TERMS // 3 - 1)))
    assert long.diff("a").evaluate(a=0.0) == MOST_TERMS // 3 - 1
    assert hesse.parse("(" * 3000 + "a" + ")" * 3000).evaluate(a=2.0) == 2.0
