"""Expressions and how they are printed."""

from __future__ import annotations

import numpy as np

from hesse.calculus import reverse
from hesse.ir import (
    Axis,
    Node,
    apply_,
    broadcast,
    concatenate,
    constant,
    delta,
    einsum,
    map_,
    multiply,
    pairwise,
    reciprocal,
    reshape,
    scale,
    select,
    total,
    transpose,
    uniform,
    variable,
    zero,
)
from hesse.rewrite.simplify import simplify

A, B = variable("A", ("n", "n")), variable("B", ("n", "n"))
S = variable("S", ("n", "n"), ["symmetric"])
x, y = variable("x", ("n",)), variable("y", ("n",))
s, t = variable("s", ()), variable("t", ())
X, w, c = variable("X", ("m", "n")), variable("w", ("n",)), variable("c", ("m",))
z, row, one = variable("z", (6,)), variable("row", (1, 4)), variable("one", (4, 1))
T, U, V = variable("T", (4, 5)), variable("U", (4, 2)), variable("V", (5, 2))
M, v = variable("M", (3, 4)), variable("v", (4,))
residual = pairwise("ij,j->i", A, x) - y


def hessian(output: Node, by: Node) -> Node:
    return simplify(reverse(simplify(reverse(output, [by]))[0], [by]))[0]


def logistic() -> Node:
    margins = multiply(c, pairwise("ij,j->i", X, w))
    return total(map_("log", map_("exp", -margins) + 1.0), [0])


def rosenbrock() -> Node:
    left = select(z, [slice(None, -1)])
    difference = select(z, [slice(1, None)]) - multiply(left, left)
    return total(multiply(difference, difference), [0])


def factorization() -> Node:
    difference = T - pairwise("ik,jk->ij", U, V)
    return pairwise("ij,ij->", difference, difference)


def soft() -> Node:
    return apply_("softmax", [pairwise("ij,j->i", A, x)], ("n",))


PRODUCTS = [
    ("ij->ji", [A], "A'"),
    ("ij->ji", [S], "S"),
    ("ij,j->i", [A, x], "A*x"),
    ("ij,i->j", [A, x], "A'*x"),
    ("ij,jk->ik", [A, B], "A*B"),
    ("ij,kj->ik", [A, B], "A*B'"),
    ("ij,jk,kl->il", [A, S, B], "A*S*B"),
    ("ij,ij->ij", [A, A], "A.^2"),
    ("ij,ij->ij", [A, B], "A.*B"),
    ("ij,ji->ij", [A, B], "A.*B'"),
    ("ij,ij->", [A, B], "sum(A.*B)"),
    ("ij,ji->", [A, B], "tr(A*B)"),
    ("ij,jk,ki->", [A, B, S], "tr(A*B*S)"),
    ("ii->", [A], "tr(A)"),
    ("ii->i", [A], "diag(A)"),
    ("i->ii", [x], "diag(x)"),
    ("i->", [x], "sum(x)"),
    ("ij->", [A], "sum(A)"),
    ("ij->i", [A], "A*vector(1)"),
    ("ij->j", [A], "A'*vector(1)"),
    ("i,i->i", [x, y], "x.*y"),
    ("i,i->", [x, y], "x'*y"),
    ("i,i->", [x, x], "x'*x"),
    ("i,i,i->", [x, x, y], "sum(x.^2.*y)"),
    ("i,j->ij", [x, y], "x*y'"),
    ("i,ij,j->", [x, A, y], "x'*A*y"),
    ("i,ij,j->", [y, A, x], "y'*A*x"),
    ("ij,j->", [A, x], "sum(A*x)"),
    ("i,ij->ij", [x, A], "diag(x)*A"),
    ("ij,i,ik->jk", [A, x, A], "A'*diag(x)*A"),
    ("ij,j,i->i", [A, x, y], "y.*(A*x)"),
    ("ij,j,ik,k->i", [A, x, B, y], "(A*x).*(B*y)"),
    ("ij,j,k,kl->il", [A, x, y, B], "A*x*y'*B"),
    ("ij,j->ii", [A, x], "diag(A*x)"),
    ("i,i,jk->jk", [x, y, A], "(x'*y)*A"),
    (",ij->ij", [s, A], "s*A"),
    (",,->", [s, s, t], "s^2*t"),
    ("ij,k->ijk", [A, x], "T[i,j,k] = A[i,j]*x[k]"),
    ("ii,i->", [A, x], "x'*diag(A)"),
    ("ij,jk,kl->il", [A, A, A], "A^3"),
    ("ji,kj->ik", [A, A], "(A^2)'"),
    ("ij,ij,j->i", [A, B, x], "(A.*B)*x"),
    ("ij,jk->", [A, B], "sum(A*B*vector(1))"),
    ("ij,jk->ik", [row, one], "row*one"),
    ("ij->ji", [row], "row'"),
    ("ij,jk->ik", [one, row], "one*row"),
]

FORMULAS: list[tuple[Node, str]] = [
    (x, "x"),
    (scale(A, 2.0), "2*A"),
    (-A, "-A"),
    (scale(x, 1 / 3), "1/3*x"),
    (scale(x, 7615941559.557649), "7615941559.557649*x"),
    (scale(x, 0.1), "0.1*x"),
    (1.0 - x, "1 - x"),
    (x - 1.0, "x - 1"),
    (x + broadcast(s, ("n",), []), "s + x"),
    (-residual, "y - A*x"),
    (residual, "A*x - y"),
    (pairwise("ij,j->i", A, residual), "A*(A*x - y)"),
    (scale(pairwise("ij,i->j", A, residual), 2.0), "2*A'*(A*x - y)"),
    (multiply(residual, residual), "(A*x - y).^2"),
    (pairwise("ij,j->i", A + B, x), "(A + B)*x"),
    (pairwise("ij,j->i", A, pairwise("ij,j->i", B, x)), "A*B*x"),
    (pairwise("ki,kj->ij", pairwise("ij,jk->ik", A, B), pairwise("ij,jk->ik", A, B)), "B'*A'*A*B"),
    (multiply(x, pairwise("ij,j->i", A, multiply(x, y))), "x.*(A*(x.*y))"),
    (multiply(x, map_("exp", x), multiply(x, y)), "x.^2.*y.*exp(x)"),
    (multiply(A + B, map_("exp", A - B)), "exp(A - B).*(A + B)"),
    (map_("power", residual, uniform(3.0, ("n",))), "(A*x - y).^3"),
    (transpose(map_("exp", A), [1, 0]), "exp(A)'"),
    (multiply(x, reciprocal(y)), "x./y"),
    (reciprocal(x), "1./x"),
    (multiply(s, reciprocal(t)), "s/t"),
    (pairwise("i,,->i", x, s, reciprocal(t)), "s*x/t"),
    (map_("power", x, uniform(-2.0, ("n",))), "1./x.^2"),
    (map_("maximum", x, uniform(0.0, ("n",))), "relu(x)"),
    (map_("exp", -x), "exp(-x)"),
    (map_("exp", multiply(x, x) + y), "exp(x.^2 + y)"),
    (uniform(3.0), "3"),
    (uniform(3.0, ("n", "m")), "matrix(3, n, m)"),
    (broadcast(s, ("n",), []), "s*vector(1, n)"),
    (einsum([s, z], [(), (Axis(((0, 1),), 0),)], (Axis(((0, 1),), 1),), (7,), (6,)), "s*(z[i] -> [i+1])"),
    (zero(("n",)), "vector(0, n)"),
    (delta(("n",)), "eye(n)"),
    (A + delta(("n",)), "A + eye"),
    (delta(("n", "m")), "H[i,j,k,l] = delta[i,k]*delta[j,l]"),
    (total(uniform(2.0, ("n",)), [0]), "2*n"),
    (apply_("inverse", [A], ("n", "n")), "inv(A)"),
    (apply_("scatter", [x, variable("at", ("n",), kind="integer")], (7,), (7,)), "scatter(x, at, 7)"),
    (select(z, [slice(1, None)]), "z[i+1] -> [i]"),
    (select(z, [slice(None, None, 2)]), "z[2i] -> [i]"),
    (select(z, [slice(None, None, -1)]), "z[5-i] -> [i]"),
    (select(z, [slice(0, 3)]), "z[i] -> [i], i<3"),
    (select(z, [3]), "z[3] -> []"),
    (total(select(z, [slice(0, 3)]), [0]), "z[i] -> [], i<3"),
    (broadcast(v, (3, 4), [1]), "vector(1, 3)*v'"),
    (reshape(M, (12,)), "M[j,i] -> [4j+i]"),
    (reshape(z, (2, 3)), "z[3i+j] -> [i,j]"),
    (concatenate([v, z], 0), "(v[i] -> [i]) + (z[i] -> [i+4])"),
    (constant(np.array([1.0, 2.5, -3.0])), "[1, 2.5, -3]"),
    (constant(np.array(np.inf)), "inf"),
    (hessian(pairwise("i,ij,j->", x, A, x), x), "A + A'"),
    (hessian(pairwise("i,ij,j->", x, S, x), x), "2*S"),
    (reverse(pairwise("i,ij,j->", x, A, x), [x])[0], "(A + A')*x"),
    (factorization(), "norm2(T - U*V')^2"),
    (reverse(factorization(), [U])[0], "2*(U*V' - T)*V"),
    (hessian(factorization(), U), "H[i,j,k,l] = 2*delta[i,k]*(V'*V)[j,l]"),
    (
        hessian(rosenbrock(), z),
        "2*(-> [i+1,i+1]) + 12*(z[i] z[i] -> [i,i], i<5) - 4*(z[i+1] -> [i,i]) - 4*(z[i] -> [i+1,i])"
        " - 4*(z[i] -> [i,i+1])",
    ),
    (reverse(simplify([logistic()])[0], [w])[0], "-X'*(c.*sigmoid(-c.*(X*w)))"),
    (multiply(broadcast(s, ("n",), []), pairwise("i,i->i", x, y)), "s*x.*y"),
    (multiply(soft(), soft()), "softmax(A*x).^2"),
    (reverse(soft(), [x])[0], "(diag(p) - p*p')*A where p = softmax(A*x)"),
    (
        pairwise("ij,j->i", constant(np.arange(12.0).reshape(3, 4)), v),
        "c1*v where c1 = constant(3, 4)",
    ),
]
