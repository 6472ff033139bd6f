"""Functions of matrices, and how their derivatives read."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from textbook_problem import Problem, inv, logdet, norm

MATRIX_PROBLEMS = [
    Problem(
        "tr(A*inv(X))",
        lambda X, A: jnp.trace(A @ inv(X)),
        {
            "X": "-inv(X)'*A'*inv(X)'",
            "XX": "H[i,j,k,l] = inv(X)[j,k]*B[l,i] + inv(X)[l,i]*B[j,k] where B = inv(X)*A*inv(X)",
        },
    ),
    Problem(
        "logdet(A'*X*A)",
        lambda X, A: logdet(A.T @ X @ A),
        {"X": "A*inv(A'*X*A)'*A'", "XX": "H[i,j,k,l] = -B[l,i]*B[j,k] where B = A*inv(A'*X*A)*A'"},
    ),
    Problem(
        "sum(log(exp(X*W)*vector(1)))-tr(Y'*X*W)",
        lambda W, X, Y: jnp.sum(jnp.log(jnp.sum(jnp.exp(X @ W), axis=1))) - jnp.trace(Y.T @ X @ W),
        {
            "W": "X'*(softmax(X*W) - Y)",
            "WW": ("H[i,j,k,l] = sum[p](X[p,i]*X[p,k]*P[p,j]*(delta[j,l] - P[p,l])) where P = softmax(X*W)"),
        },
    ),
    Problem("a'*X*b", lambda X, a, b: a @ X @ b, {"X": "a*b'", "a": "X*b"}, {"a": "vector", "b": "vector"}),
    Problem(
        "a'*X'*X*b",
        lambda X, a, b: a @ X.T @ X @ b,
        {"X": "X*(a*b' + b*a')", "XX": "H[i,j,k,l] = delta[i,k]*(a*b' + b*a')[j,l]"},
        {"a": "vector", "b": "vector"},
    ),
    Problem(
        "a'*inv(X)*b",
        lambda X, a, b: a @ inv(X) @ b,
        {
            "X": "-inv(X)'*a*b'*inv(X)'",
            "XX": (
                "H[i,j,k,l] = inv(X)[j,k]*(inv(X)'*a)[i]*(inv(X)*b)[l] +"
                " inv(X)[l,i]*(inv(X)'*a)[k]*(inv(X)*b)[j]"
            ),
        },
        {"a": "vector", "b": "vector"},
    ),
    Problem(
        "tr(X'*A*X*B)",
        lambda X, A, B: jnp.trace(X.T @ A @ X @ B),
        {"X": "A*X*B + A'*X*B'", "XX": "H[i,j,k,l] = A[i,k]*B[l,j] + A[k,i]*B[j,l]"},
    ),
    Problem(
        "tr(X^3)",
        lambda X: jnp.trace(X @ X @ X),
        {"X": "3*(X^2)'", "XX": "H[i,j,k,l] = 3*delta[i,l]*X[j,k] + 3*delta[j,k]*X[l,i]"},
    ),
    Problem(
        "tr(inv(X))",
        lambda X: jnp.trace(inv(X)),
        {"X": "-(inv(X)^2)'", "XX": "H[i,j,k,l] = inv(X)[j,k]*(inv(X)^2)[l,i] + inv(X)[l,i]*(inv(X)^2)[j,k]"},
    ),
    Problem("tr(expm(X))", lambda X: jnp.trace(jax.scipy.linalg.expm(X)), {"X": "expm(X)'"}),
    Problem(
        "det(X)",
        lambda X: jnp.exp(logdet(X)),
        {
            "X": "det(X)*inv(X)'",
            "XX": "H[i,j,k,l] = det(X)*(inv(X)[j,i]*inv(X)[l,k] - inv(X)[j,k]*inv(X)[l,i])",
        },
    ),
    Problem("det(A'*X*A)", lambda X, A: jnp.linalg.det(A.T @ X @ A), {"X": "det(A'*X*A)*A*inv(A'*X*A)'*A'"}),
    Problem(
        "logdet(X)",
        lambda X: jnp.log(jnp.linalg.det(X)),
        {
            "X": "inv(X)'",
            "XX": "H[i,j,k,l] = -inv(X)[j,k]*inv(X)[l,i]",
            "XXX": (
                "H[i,j,k,l,m,n] = inv(X)[j,k]*inv(X)[l,m]*inv(X)[n,i] + inv(X)[j,m]*inv(X)[l,i]*inv(X)[n,k]"
            ),
        },
    ),
    Problem(
        "inv(X)",
        lambda X: jnp.linalg.solve(X, jnp.eye(len(X))),
        {"X": "H[i,j,k,l] = -inv(X)[i,k]*inv(X)[l,j]"},
    ),
    Problem(
        "norm2(X)",
        lambda X: jnp.sqrt(jnp.sum(X**2)),
        {"X": "X/norm2(X)", "XX": "H[i,j,k,l] = delta[i,k]*delta[j,l]/norm2(X) - X[i,j]*X[k,l]/norm2(X)^3"},
    ),
    Problem(
        "norm2(A*X-B)^2",
        lambda X, A, B: norm(A @ X - B) ** 2,
        {"X": "2*A'*(A*X - B)", "XX": "H[i,j,k,l] = 2*delta[j,l]*(A'*A)[i,k]"},
    ),
    Problem(
        "norm2(T-U*V')^2",
        lambda U, V, T: norm(T - U @ V.T) ** 2,
        {
            "U": "2*(U*V' - T)*V",
            "UU": "H[i,j,k,l] = 2*delta[i,k]*(V'*V)[j,l]",
            "UV": "H[i,j,k,l] = 2*U[i,l]*V[k,j] - 2*delta[j,l]*(T - U*V')[i,k]",
        },
    ),
    Problem(
        "norm2(M.*(T-U*V'))^2",
        lambda U, V, T, M: norm(M * (T - U @ V.T)) ** 2,
        {"U": "2*(M.^2.*(U*V' - T))*V", "UU": "H[i,j,k,l] = 2*delta[i,k]*sum[p](M[i,p]^2*V[p,j]*V[p,l])"},
    ),
    Problem("det(inv(X))", lambda X: 1 / jnp.linalg.det(X), {"X": "-inv(X)'/det(X)"}),
    Problem(
        "sum(sigmoid(X*W))",
        lambda X, W: jnp.sum(jax.nn.sigmoid(X @ W)),
        {
            "WW": (
                "H[i,j,k,l] = delta[j,l]*sum[p](X[p,i]*X[p,k]*S[p,j]*(1 - S[p,j])*(1 - 2*S[p,j])) where S ="
                " sigmoid(X*W)"
            )
        },
    ),
    Problem(
        "tr(A*expm(X))",
        lambda X, A: jnp.trace(A @ jax.scipy.linalg.expm(X)),
        {"X": "H[i,j] = sum[p,q](A[p,q]*expm_chain(X, 2)[q,i,j,p])"},
        scales={"X": 0.2},
    ),
]
