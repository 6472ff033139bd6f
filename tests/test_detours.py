"""Products with cycles in matrix notation: what is printed is read back and compared with the entries."""

from __future__ import annotations

import numpy as np
import pytest

import hesse

SIZE = 3
GENERATOR = np.random.default_rng(2)
VALUES = {name: GENERATOR.normal(size=(SIZE, SIZE)) for name in "ABCDKPQVY"} | {
    "x": GENERATOR.normal(size=SIZE)
}

PRODUCTS = [
    ("sum[k](P[i,j]*A[i,k]*B[k,j])", "P.*(A*B)", "ij,ik,kj->ij"),
    ("sum[k](P[j,i]*A[i,k]*B[k,j])", "(P.*(B'*A'))'", "ji,ik,kj->ij"),
    ("sum[k](P[i,j]*A[i,k]*x[k]*B[k,j])", "P.*(A*diag(x)*B)", "ij,ik,k,kj->ij"),
    ("sum[j,k](P[i,j]*A[i,k]*B[k,j])", "(P.*(A*B))*vector(1)", "ij,ik,kj->i"),
    ("sum[k,l](P[i,k]*A[i,l]*B[l,k]*C[k,j])", "(P.*(A*B))*C", "ik,il,lk,kj->ij"),
    ("sum[i,j,k](A[i,j]*B[j,k]*C[k,i])", "tr(A*B*C)", "ij,jk,ki->"),
]

DERIVATIVES = [
    ("tr(Y'*softmax(Q*K')*V)", "Q", "(P.*(Y*V') - diag((Y.*(P*V))*vector(1))*P)*K where P = softmax(Q*K')"),
    ("tr(Y'*softmax(Q*K')*V)", "K", "(P.*(Y*V') - diag((Y.*(P*V))*vector(1))*P)'*Q where P = softmax(Q*K')"),
    (
        "norm2(softmax(Q*K'/2)*V - Y)^2",
        "Q",
        "(P.*((P*V - Y)*V') - diag(((P*V - Y).*(P*V))*vector(1))*P)*K where P = softmax(0.5*Q*K')",
    ),
]


def value(text: str) -> np.ndarray:
    formula = hesse.parse(text)
    return np.asarray(formula.evaluate(**{v.name: VALUES[v.name] for v in formula.variables}))


@pytest.mark.parametrize(("text", "printed", "spec"), PRODUCTS)
def test_products_with_detours(text: str, printed: str, spec: str) -> None:
    formula = hesse.parse(text)
    assert str(formula) == printed
    names = [name for name in text.split("](", 1)[1] if name in VALUES]
    expected = np.einsum(spec, *(VALUES[name] for name in names))
    np.testing.assert_allclose(value(printed), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("text", "by", "printed"), DERIVATIVES)
def test_gradients_of_attention(text: str, by: str, printed: str) -> None:
    formula = hesse.parse(text).diff(by)
    assert str(formula) == printed
    expected = formula.evaluate(**{v.name: VALUES[v.name] for v in formula.variables})
    np.testing.assert_allclose(value(printed), expected, rtol=1e-12, atol=1e-12)
