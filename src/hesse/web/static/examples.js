// Formulas to begin with.

export const EXAMPLES = [
  { name: "Quadratic form", formula: "x'*A*x", by: ["x"], types: {} },
  { name: "Least squares", formula: "norm2(A*x - y)^2", by: ["x"], types: {} },
  { name: "Logistic regression", formula: "sum(log(exp(-y.*(X*w)) + vector(1)))", by: ["w", "w"], types: {} },
  { name: "Softmax regression", formula: "sum(log(exp(X*W)*vector(1))) - tr(Y'*X*W)", by: ["W", "W"], types: {} },
  { name: "Factorisation", formula: "norm2(M.*(T - U*V'))^2", by: ["U", "U"], types: {} },
  { name: "Matrix inverse", formula: "tr(A*inv(X))", by: ["X"], types: {} },
  { name: "Log-determinant", formula: "logdet(X)", by: ["X", "X"], types: { X: "psd matrix" } },
  { name: "Cubic form", formula: "sum[i,j,k](T[i,j,k]*x[i]*x[j]*x[k])", by: ["x", "x"], types: {} },
];
