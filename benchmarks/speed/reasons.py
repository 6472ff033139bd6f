"""Why something else is faster than hesse, by problem and comparison; the page prints them."""

from __future__ import annotations

from benchmarks.speed.candidates import DENSE, PRODUCT, STRUCTURED

SMALL = (
    "The work takes microseconds: what remains is the call itself (looking up the compiled program, making "
    "the structured tensor, about 3 to 10 µs)."
)
"""For results so small that dispatch is what is measured."""

DIFFERENCES = (
    "The closed form multiplies the differences of coordinates out, `w·x` instead of `w·(xᵢ - xⱼ)`. That "
    "loses digits when the points are far from the origin compared with their distances, so hesse forms the "
    "differences."
)

SYMMETRIC_KERNEL = (
    "The expert knows that the kernel matrix is symmetric and that `tr(K⁻¹AK⁻¹B)` needs only the products "
    "`K⁻¹A`; hesse factorises twice (for the determinant and for the solution) and multiplies by the inverse "
    "on both sides. It is faster than the other libraries all the same."
)

REASONS: dict[tuple[str, str], str] = {
    ("Gaussian-process likelihood", DENSE): SYMMETRIC_KERNEL,
    ("pair potential", STRUCTURED): DIFFERENCES,
    ("pair potential", PRODUCT): DIFFERENCES,
    ("dense third derivative", DENSE): (
        "The closed form knows that the tensor is symmetric in all three axes and adds three transposes of "
        "one product; hesse contracts the sum in one product with more terms."
    ),
    ("Laplacian of a perceptron", DENSE): (
        "The expert adds the squares of the weights once and multiplies two vectors; hesse multiplies the "
        "slopes into the weights first."
    ),
    ("ten-layer ReLU net, first layer", STRUCTURED): (
        "The same products of layers; the masks are multiplied into the weights one by one, in new arrays."
    ),
    ("tiny Rosenbrock", DENSE): SMALL,
}


def reason(problem: str, comparison: str, seconds: float) -> str:
    """Why a problem is slower here, where the call takes some seconds at its largest losing size."""
    known = REASONS.get((problem, comparison))
    if known is not None:
        return known
    return SMALL if seconds < SMALL_SECONDS else "No reason is recorded yet."


SMALL_SECONDS = 2e-4
"""Calls that take less than this are dominated by fixed costs."""
