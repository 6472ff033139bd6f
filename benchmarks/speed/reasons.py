"""Why something else is faster than hesse, by problem and comparison; the page prints them."""

from __future__ import annotations

from benchmarks.speed.candidates import DENSE, PRODUCT, STRUCTURED

SMALL = (
    "The work takes microseconds: what remains is the call itself (looking up the compiled program, making "
    "the structured tensor, about 3 to 10 µs)."
)
"""For results so small that dispatch is what is measured."""

DIFFERENCES = (
    "The closed form multiplies the differences of coordinates out, `w·x` instead of `w·(xᵢ - xⱼ)`: matrix "
    "products, which run on all cores, but lose digits when the points are far from the origin compared with "
    "their distances. hesse forms the differences, some rows at a time on one core, and takes half of the "
    "memory."
)

KNOWN_MATRICES = (
    "The expert knows that the kernel matrix is symmetric and that `identity` is the identity: two products "
    "of matrices and one factorisation. hesse is told neither: it takes three products, and solves a system "
    "besides the inverse. It is faster than the other libraries all the same."
)

STABLE_SOFTMAX = (
    "The softmax of hesse subtracts the largest exponent first, so that it cannot overflow; the closed form "
    "does not. That is one more pass over the array."
)

MORE_CALLS = (
    "The program has more NumPy calls than the hand-written form: products, scalings and sums are separate "
    "passes over the arrays, and each call costs about a microsecond besides."
)
"""For sizes where passes over small arrays are what is measured."""

REASONS: dict[tuple[str, str], str] = {
    ("Gaussian-process likelihood", DENSE): KNOWN_MATRICES,
    ("pair potential", STRUCTURED): DIFFERENCES,
    ("masked factorisation, k = 20", PRODUCT): (
        "Where the factors take less memory than the blocks, hesse keeps the factors: the tensor is there in "
        "microseconds instead of 0.07 to 0.3 ms, and each product with it takes longer."
    ),
    ("dense third derivative", DENSE): (
        "The closed form centres the rows of `A` first: the third cumulant is then one product of three "
        "equal matrices. hesse centres two of the factors and has one more array of that size to compute."
    ),
    ("Laplacian of a perceptron", DENSE): (
        "The expert adds the squares of the weights once and multiplies two vectors; hesse multiplies the "
        "slopes into the weights first."
    ),
    ("tiny Rosenbrock", DENSE): SMALL,
    ("attention by Q", STRUCTURED): STABLE_SOFTMAX,
    ("multi-head attention by Q", STRUCTURED): STABLE_SOFTMAX,
    ("batch as a sum", STRUCTURED): STABLE_SOFTMAX,
    ("batch as a sum", DENSE): STABLE_SOFTMAX,
    ("Newton step of a factorisation, k = 10", STRUCTURED): (
        "`solve` looks for the structure of the system in every call, which takes about 0.2 ms; at the "
        "largest size that no longer matters."
    ),
}


def reason(problem: str, comparison: str, seconds: float) -> str:
    """Why a problem is slower here, where the call takes some seconds at its largest losing size."""
    general = SMALL if seconds < SMALL_SECONDS else MORE_CALLS
    return REASONS.get((problem, comparison), general)


SMALL_SECONDS = 2e-4
"""Calls that take less than this are dominated by fixed costs."""
