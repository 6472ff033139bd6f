"""Functions of vectors, and how their derivatives read."""

from __future__ import annotations

import jax.numpy as jnp

from textbook_problem import Problem, inv, logdet, norm

VECTOR_PROBLEMS = [
    Problem("x'*A*x", lambda x, A: x @ A @ x, {"x": "(A + A')*x", "xx": "A + A'"}),
    Problem("x'*A*x", lambda x, A: x @ A @ x, {"x": "2*A*x", "xx": "2*A"}, {"A": "symmetric matrix"}),
    Problem(
        "norm2(A*x-y)",
        lambda x, A, y: norm(A @ x - y),
        {"x": "A'*(A*x - y)/norm2(A*x - y)", "xx": "A'*(eye/norm2(r) - r*r'/norm2(r)^3)*A where r = A*x - y"},
    ),
    Problem(
        "norm2(A*x-y)^2",
        lambda x, A, y: norm(A @ x - y) ** 2,
        {
            "x": "2*A'*(A*x - y)",
            "xx": "2*A'*A",
            "A": "2*(A*x - y)*x'",
            "AA": "H[i,j,k,l] = 2*delta[i,k]*x[j]*x[l]",
        },
    ),
    Problem(
        "sum(log(exp(-y.*(X*w))+vector(1)))",
        lambda w, X, y: jnp.sum(jnp.log(jnp.exp(-y * (X @ w)) + 1)),
        {
            "w": "-X'*(y.*sigmoid(-y.*(X*w)))",
            "ww": "X'*diag(y.^2.*s.*(1 - s))*X where s = sigmoid(y.*(X*w))",
            "www": (
                "T[i,j,k] = sum[p](X[p,i]*X[p,j]*X[p,k]*y[p]^3*s[p]*(1 - s[p])*(1 - 2*s[p])) where s ="
                " sigmoid(y.*(X*w))"
            ),
        },
    ),
    Problem(
        "1/2*y'*inv(K)*y+1/2*logdet(K)",
        lambda y, K: y @ inv(K) @ y / 2 + logdet(K) / 2,
        {"y": "inv(K)*y", "yy": "inv(K)", "K": "0.5*(inv(K) - inv(K)*y*y'*inv(K))"},
        {"K": "psd matrix"},
    ),
    Problem(
        "1/2*(x-m)'*inv(S)*(x-m)+1/2*logdet(S)",
        lambda x, m, S: (x - m) @ inv(S) @ (x - m) / 2 + logdet(S) / 2,
        {"m": "inv(S)*(m - x)", "mm": "inv(S)", "S": "0.5*(inv(S) - inv(S)*(x - m)*(x - m)'*inv(S))"},
        {"S": "psd matrix"},
    ),
    Problem(
        "x'*A*x/(x'*x)",
        lambda x, A: x @ A @ x / (x @ x),
        {
            "x": "2*A*x/(x'*x) - 2*(x'*A*x)*x/(x'*x)^2",
            "xx": (
                "2*A/(x'*x) + 8*(x'*A*x)*x*x'/(x'*x)^3 - 2*(x'*A*x)*eye/(x'*x)^2 - 4*(A*x*x' +"
                " x*x'*A)/(x'*x)^2"
            ),
        },
        {"A": "symmetric matrix"},
    ),
    Problem(
        "(x'*A*x)^2",
        lambda x, A: (x @ A @ x) ** 2,
        {"x": "4*(x'*A*x)*A*x", "xx": "4*(x'*A*x)*A + 8*A*x*x'*A"},
        {"A": "symmetric matrix"},
    ),
    Problem(
        "exp(-1/2*x'*A*x)",
        lambda x, A: jnp.exp(-(x @ A @ x) / 2),
        {"x": "-exp(-0.5*x'*A*x)*A*x", "xx": "exp(-0.5*x'*A*x)*(A*x*x'*A - A)"},
        {"A": "symmetric matrix"},
    ),
    Problem(
        "exp(-norm2(x-y)^2/(2*s^2))",
        lambda x, y, s: jnp.exp(-(norm(x - y) ** 2) / (2 * s**2)),
        {
            "x": "exp(-0.5*norm2(x - y)^2/s^2)*(y - x)/s^2",
            "xx": "c*(x - y)*(x - y)'/s^4 - c*eye/s^2 where c = exp(-0.5*norm2(x - y)^2/s^2)",
            "s": "exp(-0.5*norm2(x - y)^2/s^2)*norm2(x - y)^2/s^3",
        },
        {"s": "scalar"},
    ),
    Problem(
        "x'*u/(w'*x)",
        lambda x, u, w: x @ u / (w @ x),
        {"x": "u/(w'*x) - (u'*x)*w/(w'*x)^2", "xx": "2*(u'*x)*w*w'/(w'*x)^3 - (u*w' + w*u')/(w'*x)^2"},
    ),
    Problem(
        "log(1+x'*x)",
        lambda x: jnp.log(1 + x @ x),
        {"x": "2*x/(x'*x + 1)", "xx": "2*eye/(x'*x + 1) - 4*x*x'/(x'*x + 1)^2"},
    ),
    Problem(
        "norm2(x)",
        lambda x: jnp.sqrt(x @ x),
        {
            "x": "x/norm2(x)",
            "xx": "eye/norm2(x) - x*x'/norm2(x)^3",
            "xxx": (
                "T[i,j,k] = 3*x[i]*x[j]*x[k]/norm2(x)^5 - (delta[i,j]*x[k] + delta[i,k]*x[j] +"
                " delta[j,k]*x[i])/norm2(x)^3"
            ),
        },
    ),
    Problem(
        "norm2(x)^3", lambda x: norm(x) ** 3, {"x": "3*norm2(x)*x", "xx": "3*norm2(x)*eye + 3*x*x'/norm2(x)"}
    ),
    Problem(
        "x*x'",
        lambda x: jnp.outer(x, x),
        {
            "x": "T[i,j,k] = delta[i,k]*x[j] + delta[j,k]*x[i]",
            "xx": "H[i,j,k,l] = delta[i,k]*delta[j,l] + delta[j,k]*delta[i,l]",
        },
    ),
    Problem("A*x", lambda x, A: A @ x, {"x": "A", "A": "T[i,j,k] = delta[i,j]*x[k]"}),
    Problem(
        "x'*inv(A+c*eye)*x",
        lambda x, A, c: x @ inv(A + c * jnp.eye(3)) @ x,
        {
            "x": "2*inv(A + c*eye)*x",
            "c": "-norm2(inv(A + c*eye)*x)^2",
            "cc": "2*x'*C^3*x where C = inv(A + c*eye)",
        },
        {"A": "symmetric matrix"},
    ),
    Problem(
        "logsumexp(A*x)",
        lambda x, A: jnp.log(jnp.sum(jnp.exp(A @ x))),
        {
            "x": "A'*softmax(A*x)",
            "xx": "A'*(diag(p) - p*p')*A where p = softmax(A*x)",
            "xxx": (
                "T[i,j,k] = sum[q](A[q,i]*A[q,j]*R[q,k]) - (A'*R)[i,k]*(A'*p)[j] - (A'*p)[i]*(A'*R)[j,k]"
                " where p = softmax(A*x); R = (diag(p) - p*p')*A"
            ),
        },
    ),
    Problem(
        "softmax(A*x)",
        lambda x, A: jnp.exp(A @ x) / jnp.sum(jnp.exp(A @ x)),
        {
            "x": "(diag(p) - p*p')*A where p = softmax(A*x)",
            "xx": (
                "T[i,j,k] = A[i,j]*R[i,k] - R[i,k]*(A'*p)[j] - p[i]*(A'*R)[j,k] where p = softmax(A*x); R"
                " = (diag(p) - p*p')*A"
            ),
        },
    ),
    Problem(
        "sum(sigmoid(V*tanh(W*x)))",
        lambda x, V, W: jnp.sum(1 / (1 + jnp.exp(-(V @ jnp.tanh(W @ x))))),
        {
            "x": "W'*((1 - tanh(W*x).^2).*(V'*(s.*(1 - s)))) where s = sigmoid(V*tanh(W*x))",
            "W": "((1 - tanh(W*x).^2).*(V'*(s.*(1 - s))))*x' where s = sigmoid(V*tanh(W*x))",
        },
    ),
    Problem(
        "tanh(A*x)",
        lambda x, A: jnp.tanh(A @ x),
        {
            "x": "diag(1 - tanh(A*x).^2)*A",
            "xx": "T[i,j,k] = -2*A[i,j]*A[i,k]*tanh(A*x)[i]*(1 - tanh(A*x)[i]^2)",
        },
    ),
    Problem(
        "(A*x-b)'*W*(A*x-b)",
        lambda x, A, W, b: (A @ x - b) @ W @ (A @ x - b),
        {"x": "2*A'*W*(A*x - b)", "xx": "2*A'*W*A"},
        {"W": "symmetric matrix", "b": "vector"},
    ),
    Problem(
        "(A*x-b)'*W*(A*x-b)",
        lambda x, A, W, b: (A @ x - b) @ W @ (A @ x - b),
        {"x": "A'*(W + W')*(A*x - b)", "xx": "A'*(W + W')*A"},
        {"b": "vector"},
    ),
    Problem(
        "norm2(A*x-y)^2+c*norm2(x)^2",
        lambda x, A, y, c: norm(A @ x - y) ** 2 + c * norm(x) ** 2,
        {"x": "2*A'*(A*x - y) + 2*c*x", "xx": "2*A'*A + 2*c*eye"},
    ),
    Problem(
        "1/2*norm2(A*x-y)^2+c*norm1(x)",
        lambda x, A, y, c: norm(A @ x - y) ** 2 / 2 + c * jnp.sum(jnp.abs(x)),
        {"x": "A'*(A*x - y) + c*sign(x)", "xx": "A'*A"},
    ),
    Problem(
        "sum(sqrt((A*x-y).^2+vector(1)))",
        lambda x, A, y: jnp.sum(jnp.sqrt((A @ x - y) ** 2 + 1)),
        {
            "x": "A'*((A*x - y)./sqrt((A*x - y).^2 + 1))",
            "xx": "A'*diag(1./sqrt((A*x - y).^2 + 1).^3)*A",
        },
    ),
    Problem(
        "norm2(relu(A*x)-y)^2",
        lambda x, A, y: norm(jnp.maximum(A @ x, 0) - y) ** 2,
        {"x": "2*A'*(sign(relu(A*x)).*(relu(A*x) - y))"},
    ),
    Problem(
        "sum(exp(A*x))-y'*A*x",
        lambda x, A, y: jnp.sum(jnp.exp(A @ x)) - y @ A @ x,
        {"x": "A'*(exp(A*x) - y)", "xx": "A'*diag(exp(A*x))*A"},
    ),
    Problem(
        "sum(log(vector(1)+exp(X*w)))-y'*X*w",
        lambda w, X, y: jnp.sum(jnp.log(1 + jnp.exp(X @ w))) - y @ X @ w,
        {"w": "X'*(sigmoid(X*w) - y)", "ww": "X'*diag(s.*(1 - s))*X where s = sigmoid(X*w)"},
    ),
    Problem(
        "-sum(log(y-A*x))",
        lambda x, A, y: -jnp.sum(jnp.log(y - A @ x)),
        {
            "x": "A'*(1./(y - A*x))",
            "xx": "A'*diag(1./(y - A*x).^2)*A",
            "xxx": "T[i,j,k] = 2*sum[p](A[p,i]*A[p,j]*A[p,k]/(y - A*x)[p]^3)",
        },
        scales={"y": 20.0},
    ),
    Problem(
        "sum(y.*log(x)+(vector(1)-y).*log(vector(1)-x))",
        lambda x, y: jnp.sum(y * jnp.log(x) + (1 - y) * jnp.log(1 - x)),
        {"x": "y./x - (1 - y)./(1 - x)", "xx": "-diag((1 - y)./(1 - x).^2 + y./x.^2)"},
        scales={"x": 0.5},
    ),
    Problem(
        "-sum(x.*log(x))",
        lambda x: -jnp.sum(x * jnp.log(x)),
        {"x": "-log(x) - 1", "xx": "-diag(1./x)", "xxx": "T[i,j,k] = delta[i,j]*delta[i,k]/x[i]^2"},
    ),
    Problem(
        "sum(x.*log(x./y))",
        lambda x, y: jnp.sum(x * jnp.log(x / y)),
        {"x": "log(x./y) + 1", "xx": "diag(1./x)"},
    ),
    Problem(
        "sum[i,j,k](T[i,j,k]*x[i]*x[j]*x[k])",
        lambda x, T: jnp.einsum("ijk,i,j,k->", T, x, x, x),
        {
            "x": "g[i] = sum[p,q](x[p]*x[q]*(T[i,p,q] + T[p,i,q] + T[p,q,i]))",
            "xx": ("H[i,j] = sum[p](x[p]*(T[i,j,p] + T[i,p,j] + T[j,i,p] + T[j,p,i] + T[p,i,j] + T[p,j,i]))"),
            "xxx": "R[i,j,k] = T[i,j,k] + T[i,k,j] + T[j,i,k] + T[j,k,i] + T[k,i,j] + T[k,j,i]",
        },
        {"T": "tensor(3)"},
    ),
    Problem(
        "exp(x'*A*x)",
        lambda x, A: jnp.exp(x @ A @ x),
        {"x": "exp(x'*A*x)*(A + A')*x", "xx": "exp(x'*A*x)*((A + A')*x*x'*(A + A') + A + A')"},
        scales={"x": 0.3, "A": 0.3},
    ),
    Problem(
        "sum(x.^a)",
        lambda x, a: jnp.sum(x**a),
        {"xx": "a*(a - 1)*diag(x.^(a - 2))", "aa": "sum(log(x).^2.*x.^a)"},
    ),
    Problem("a^b", lambda a, b: a**b, {"ab": "a^(b - 1)*(b*log(a) + 1)", "aa": "b*a^(b - 2)*(b - 1)"}),
    Problem(
        "softmax(x)",
        lambda x: jnp.exp(x) / jnp.sum(jnp.exp(x)),
        {
            "xx": (
                "T[i,j,k] = p[i]*(2*p[j]*p[k] + delta[i,j]*delta[i,k] - delta[i,j]*p[k] - delta[i,k]*p[j] -"
                " delta[j,k]*p[j]) where p = softmax(x)"
            )
        },
    ),
]
