"""Formulas in LaTeX: expected texts, and that they parse."""

from __future__ import annotations

import pytest

from hesse.calculus import reverse
from hesse.ir import (
    Node,
    apply_,
    delta,
    map_,
    multiply,
    pairwise,
    reciprocal,
    scale,
    select,
    total,
    transpose,
    uniform,
    variable,
)
from hesse.ops.registry import ELEMENTWISE, OPERATIONS
from hesse.printing import latex, text
from latex_check import check_latex
from printing_cases import FORMULAS, A, B, T, U, V, factorization, hessian, residual, s, soft, t, x, y, z

LATEX = [
    (hessian(pairwise("i,ij,j->", x, A, x), x), r"A + A^{\top}"),
    (hessian(factorization(), U), r"H_{ijkl} = 2 \delta_{ik} \left(V^{\top} V\right)_{jl}"),
    (
        pairwise("ip,ip,pj,pl->ijil", T, T, V, V),
        r"H_{ijkl} = \delta_{ik} \sum_{p} T_{ip}^{2} V_{pj} V_{pl}",
    ),
    (apply_("inverse", [A], ("n", "n")) - A, r"A^{-1} - A"),
    (
        pairwise("ij,kl->ijkl", A, apply_("inverse", [A], ("n", "n"))),
        r"H_{ijkl} = A_{ij} \left(A^{-1}\right)_{kl}",
    ),
    (map_("sqrt", pairwise("i,i->", residual, residual)), r"\left\|A x - y\right\|"),
    (pairwise("ij->i", A), r"A \mathbf{1}"),
    (pairwise("ij,jk->ik", A, A), "A^{2}"),
    (A + delta(("n",)), "A + I"),
    (pairwise("ij,i,ik->jk", A, x, A), r"A^{\top} \operatorname{diag}\left(x\right) A"),
    (scale(pairwise("ij,i->j", A, residual), 2.0), r"2 A^{\top} \left(A x - y\right)"),
    (multiply(x, x, reciprocal(y)), r"x^{\odot 2} \oslash y"),
    (multiply(s, reciprocal(t)), r"\frac{s}{t}"),
    (pairwise(",ij,j->i", reciprocal(t), A, x), r"\frac{A x}{t}"),
    (-pairwise(",i->i", reciprocal(s + t), x), r"-\frac{x}{s + t}"),
    (pairwise(",,->", s + t, s, reciprocal(t)), r"\frac{s \left(s + t\right)}{t}"),
    (pairwise("ij,jk->ik", *[apply_("inverse", [A], ("n", "n"))] * 2), "A^{-2}"),
    (select(z, [slice(1, None)]), r"\left[z_{i+1}\right]_{i}"),
    (total(select(z, [slice(0, 3)]), [0]), r"\sum_{i<3} z_{i}"),
    (uniform(2.0, ("n",)), r"\mathbf{2}_{n}"),
    (scale(x, 1 / 3), r"\frac{1}{3} x"),
    (scale(x, 1e20), r"1 \cdot 10^{20} x"),
    (transpose(apply_("inverse", [A], ("n", "n")), [1, 0]), r"A^{-\top}"),
    (apply_("inverse", [A + B], ("n", "n")), r"\left(A + B\right)^{-1}"),
    (map_("exp", -x), r"\exp\left(-x\right)"),
    (
        reverse(soft(), [x])[0],
        r"\left(\operatorname{diag}\left(p\right) - p p^{\top}\right) A \quad\text{where}\quad"
        r" p = \operatorname{softmax}\left(A x\right)",
    ),
    (variable("theta_max", ()), r"\theta_{\mathrm{max}}"),
    (variable("W12", ("n",)), "W_{12}"),
    (variable("loss", ()), r"\mathit{loss}"),
    (variable("a.b_1%", ()), r"\mathrm{a.b\_1\%}"),
]


@pytest.mark.parametrize(("node", "expected"), LATEX, ids=[expected for _, expected in LATEX])
def test_latex(node: Node, expected: str) -> None:
    assert latex(node) == expected


@pytest.mark.parametrize("node", [node for node, _ in FORMULAS], ids=[expected for _, expected in FORMULAS])
def test_latex_parses(node: Node) -> None:
    check_latex(latex(node))


@pytest.mark.parametrize("name", sorted(ELEMENTWISE))
def test_latex_of_rows(name: str) -> None:
    operands = [x, -y, A][: ELEMENTWISE[name].arity]
    shaped = [
        variable("W1", ("n",)) + x if k == 0 else pairwise("ij,j->i", A, x) for k in range(len(operands))
    ]
    node = map_(name, *shaped)
    check_latex(latex(pairwise("i,ij->ij", multiply(node, node), A)))


@pytest.mark.parametrize("name", sorted(OPERATIONS))
def test_latex_of_records(name: str) -> None:
    operands = [A + B, *[variable("W1", ("n", "n"))] * max(OPERATIONS[name].latex.count("{}") - 1, 1)]
    node = apply_(name, operands, ("n", "n"), (2,))
    check_latex(latex(transpose(node, [1, 0])))
    written_otherwise = {"log_softmax": "log(softmax(A + B))", "solve": "inv(A + B)*W1", "reshape": "A + B"}
    assert text(node).endswith(written_otherwise.get(name, ", 2)"))
