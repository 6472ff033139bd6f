r"""Formulas in LaTeX, for math mode.

The formula is the one that `text` prints, with the same names. Element-wise products are `\odot`, quotients
`\oslash`. What has no matrix notation is written with indices: `2 \left[\sum_{l} V_{lj} V_{lk}\right]_{ijik}`
is the tensor to whose entry `i,j,i,k` the bracket is added for all values of the labels, all other entries
being zero.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import assert_never

from hesse.ir import Node, labels_of
from hesse.ops.registry import ELEMENTWISE, OPERATIONS
from hesse.printing.arrange import Arrangement, Definition, arrange
from hesse.printing.forms import (
    Call,
    Chain,
    Delta,
    Elementwise,
    Entry,
    Form,
    Indexed,
    Label,
    Leaf,
    Literal,
    Number,
    Over,
    Scaled,
    Sum,
    Symbol,
    Transposed,
    mixes_notations,
)
from hesse.printing.notation import LOGARITHMS, axis_text, letter, rational, rounded
from hesse.printing.pieces import Level, Piece, signed_sum
from hesse.printing.products import matrix_powers

GREEK = (
    "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi pi rho sigma tau upsilon phi"
    " chi psi omega Gamma Delta Theta Lambda Xi Pi Sigma Upsilon Phi Psi Omega"
)

PRIVATE = 0xE000
"""The first character of Unicode's private area: operands are marked by these in a template."""
PLACES = f"{chr(PRIVATE)}-{chr(PRIVATE + 0xFF)}"


def latex(node: Node, taken: frozenset[str] = frozenset()) -> str:
    """The formula of a node in LaTeX, named subexpressions in a `where` clause."""
    return arrangement_latex(arrange(node, taken=taken))


def arrangement_latex(arrangement: Arrangement) -> str:
    """A formula that has been laid out, in LaTeX."""
    pieces: dict[Leaf, Piece] = {}
    definitions: list[str] = []
    for part, form in arrangement.forms.items():
        pieces[part] = _render(form, pieces)
        if part in arrangement.definitions:
            definition = arrangement.definitions[part]
            definitions.append(f"{_left_side(definition)} = {pieces[part].text}")
            pieces[part] = Piece(latex_name(definition.name))
    result = pieces[arrangement.root].text
    if arrangement.left is not None:
        result = f"{_left_side(arrangement.left)} = {result}"
    clauses = r",\quad ".join(definitions)
    return result + (rf" \quad\text{{where}}\quad {clauses}" if clauses else "")


def _left_side(definition: Definition) -> str:
    return _entry(latex_name(definition.name), definition.letters)


def latex_name(name: str) -> str:
    r"""A name of the program as a symbol: `x`, `W_{1}`, `\theta_{\mathrm{max}}`, `\mathit{loss}`."""
    match = re.fullmatch(r"([A-Za-z]+)(?:_?(\d+)|_([A-Za-z0-9]+))?", name)
    if name.isdigit():
        return name
    if "*" in name:  # a product of sizes
        return " ".join(map(latex_name, name.split("*")))
    if match is None:
        return rf"\mathrm{{{_escaped(name)}}}"
    base, digits, word = match.groups()
    if base in GREEK.split():
        base = f"\\{base}"
    elif len(base) > 1:
        base = rf"\mathit{{{base}}}"
    if word and len(word) > 1:
        word = rf"\mathrm{{{word}}}"
    return f"{base}_{{{digits or word}}}" if digits or word else base


def _escaped(name: str) -> str:
    return re.sub(r"[#$%&_{}]", lambda found: "\\" + found[0], re.sub(r"[\\^~]", "-", name))


def _held(piece: Piece, least: Level) -> str:
    return piece.body if piece.holds(least) else rf"\left({piece.text}\right)"


def _render(form: Form, pieces: Mapping[Leaf, Piece]) -> Piece:
    match form:
        case Leaf():
            return pieces[form]
        case Number():
            return _number(form.value)
        case Symbol():
            return Piece(latex_name(form.name))
        case Literal():
            return Piece(_literal(form.value))
        case Call():
            return _call(form, [_render(argument, pieces) for argument in form.arguments])
        case Sum():
            terms = [_render(term, pieces) for term in form.terms]
            unsigned = [_held(term._replace(negative=False), Level.ELEMENTWISE) for term in terms]
            return Piece(signed_sum(unsigned, [term.negative for term in terms]), Level.SUM)
        case Transposed():
            return _raised(_render(form.body, pieces), r"\top")
        case Chain():
            powers = matrix_powers(form)
            if not isinstance(powers, Chain):
                return _render(powers, pieces)
            first, *others = (_render(factor, pieces) for factor in powers.factors)
            factors = [_held(first, Level.PRODUCT), *(_held(factor, Level.POWER) for factor in others)]
            return Piece(" ".join(factors), Level.PRODUCT)
        case Elementwise():
            return _elementwise(form, pieces)
        case Scaled():
            return _scaled(form, pieces)
        case Indexed():
            return _indexed(form, pieces)
        case Entry():
            return Piece(_entry(_held(_render(form.body, pieces), Level.ATOM), form.labels))
        case Delta():
            return Piece(_entry(r"\delta", (form.first, form.second)))
        case Over():
            body = _held(_render(form.body, pieces), Level.PRODUCT)
            return Piece(rf"\sum_{{{_subscript(form.labels)}}} {body}", Level.PRODUCT)
    assert_never(form)


INVERSE = "^{-1}"


def _raised(piece: Piece, exponent: str) -> Piece:
    """A matrix with an exponent; that of an inverse is joined with the inverse: `X^{-2}`."""
    if piece.level == Level.POWER and piece.body.endswith(INVERSE) and not piece.negative:
        return Piece(f"{piece.body.removesuffix(INVERSE)}^{{-{exponent}}}", Level.POWER)
    return Piece(f"{_held(piece, Level.ATOM)}^{{{exponent}}}", Level.POWER)


def _number(value: float) -> Piece:
    if abs(value) in LOGARITHMS:
        base, power = LOGARITHMS[abs(value)]
        text = rf"\log\left({base}\right)"
        return Piece(text if power == 1 else rf"{text}^{{{power}}}", Level.POWER, value < 0)
    value = rounded(value)
    fraction = rational(abs(value))
    if fraction is not None and fraction.denominator > 1:
        return Piece(rf"\frac{{{fraction.numerator}}}{{{fraction.denominator}}}", Level.POWER, value < 0)
    if fraction is not None:
        return Piece(str(fraction), negative=value < 0)
    if not math.isfinite(value):
        return Piece(r"\mathrm{nan}" if math.isnan(value) else r"\infty", negative=value < 0)
    mantissa, _, exponent = repr(abs(float(value))).partition("e")
    body = rf"{mantissa} \cdot 10^{{{int(exponent)}}}" if exponent else mantissa
    return Piece(body, Level.PRODUCT if exponent else Level.ATOM, value < 0)


def _literal(value: float | tuple[object, ...]) -> str:
    if isinstance(value, tuple):
        return rf"\left[{', '.join(map(_literal, value))}\right]"  # type: ignore[arg-type]
    return _number(value).text


def _call(form: Call, arguments: Sequence[Piece]) -> Piece:
    if form.table == "foreign":
        return _filled(_function(form.name, len(arguments)), arguments)
    if form.name == "kron":
        return Piece(r" \otimes ".join(_held(part, Level.POWER) for part in arguments), Level.ELEMENTWISE)
    if form.table == "apply" and form.params and (form.name, form.params) != ("expm_chain", (1,)):
        given = [*arguments, *(Piece(latex_name(str(param))) for param in form.params)]
        return _filled(_function(form.name, len(given)), given)
    if form.table == "map" and form.name == "power":
        return _power_of(arguments[0], arguments[1], form.scalar)
    if form.table != "builtin":
        record = (ELEMENTWISE if form.table == "map" else OPERATIONS).get(form.name)
        return _filled(record.latex if record else _function(form.name, len(arguments)), arguments)
    sizes = r" \times ".join(argument.text for argument in arguments)
    match form.name:
        case "eye":
            return Piece(f"I_{{{sizes}}}" if sizes else "I")
        case "vector" | "matrix":
            value, *shape = arguments
            sizes = r" \times ".join(argument.text for argument in shape)
            return Piece(rf"\mathbf{{{value.text}}}" + (f"_{{{sizes}}}" if sizes else ""))
        case "commutation":
            return Piece(rf"\mathbf{{K}}_{{{', '.join(argument.text for argument in arguments)}}}")
        case "matrix_power":
            return _raised(arguments[0], str(form.params[0]))
        case "norm2":
            return Piece(rf"\left\|{arguments[0].text}\right\|")
    name = "diag" if form.name == "diagonal" else form.name
    return _filled(_function(name, len(arguments)), arguments)


def _power_of(base: Piece, exponent: Piece, scalar: bool) -> Piece:
    """A power; numbers are in parentheses, as `3 2^{a}` would be read as 32 to the power of a."""
    held = rf"\left({base.text}\right)" if base.text[0].isdigit() else _held(base, Level.ATOM)
    raised = exponent.text if scalar else rf"\odot {_held(exponent, Level.POWER)}"
    return Piece(f"{held}^{{{raised}}}", Level.POWER)


def _function(name: str, arity: int) -> str:
    """A template for a function without one of its own."""
    escaped = _escaped(name).replace("{", "{{").replace("}", "}}")
    return rf"\operatorname{{{{{escaped}}}}}\left({', '.join(['{}'] * arity)}\right)"


def _filled(template: str, arguments: Sequence[Piece]) -> Piece:
    """A template with the operands in its places, in parentheses where the template has none."""
    marks = [chr(PRIVATE + k) for k in range(len(arguments))]
    skeleton = template.format(*marks)
    parts = re.split(f"([{PLACES}])", skeleton)
    for k in range(1, len(parts), 2):
        parts[k] = _placed(arguments[ord(parts[k]) - PRIVATE], parts[k - 1], parts[k + 1])
    return Piece("".join(parts), _level(skeleton))


def _placed(piece: Piece, before: str, after: str) -> str:
    opened = re.search(r"([({\[|,]|\\lfloor|\\lceil)\s*$", before)
    closed = re.match(r"\s*([)}\]|,]|\\right|\\rfloor|\\rceil)", after)
    if opened and closed:
        return piece.text
    body = _held(piece, Level.ELEMENTWISE if closed and before.endswith("+ ") else Level.ATOM)
    return f"{{{body}}}" if after[:1] in ("_", "^") and re.search("[_^]", body) else body


def _level(skeleton: str) -> Level:
    """How tightly a template (operands as marks) holds together, by what is outside all brackets."""
    outside, depth, previous = "", 0, ""
    for token in re.findall(r"\\[A-Za-z]+|\\.|.", skeleton, re.DOTALL):
        depth -= token in (r"\right", "}")
        if depth == 0 and previous != r"\right" and token not in (r"\right", r"\left", "{", "}"):
            outside += token
        depth += token in (r"\left", "{")
        previous = token
    if re.fullmatch(f"[{PLACES}][_^]", outside):
        return Level.POWER
    if re.search(f"[{PLACES}+<>=-]", outside):
        return Level.ARROW
    return Level.POWER if re.search(r"[\^_]$|\\frac|\\sqrt", outside) else Level.ATOM


def _power(form: Form, power: int, scalar: bool, pieces: Mapping[Leaf, Piece]) -> Piece:
    piece = _render(form, pieces)
    if power == 1:
        return piece
    exponent = str(power) if scalar else rf"\odot {power}"
    return Piece(f"{_held(piece, Level.ATOM)}^{{{exponent}}}", Level.POWER)


def _elementwise(form: Elementwise, pieces: Mapping[Leaf, Piece]) -> Piece:
    if form.scalar:
        return _quotient([], form, pieces)
    factors = [_power(part, power, False, pieces) for part, power in form.factors]
    divisors = [_power(part, power, False, pieces) for part, power in form.divisors]
    if len(factors) == 1 and not divisors:
        return factors[0]
    joined = [_held(factor, Level.POWER) for factor in factors] or ["1"]
    if factors and factors[0].level == Level.ELEMENTWISE and not factors[0].negative:
        joined[0] = factors[0].body
    below = [_held(divisor, Level.POWER) for divisor in divisors]
    return Piece(r" \oslash ".join([r" \odot ".join(joined), *below]), Level.ELEMENTWISE)


def _quotient(
    factors: list[str], form: Elementwise, pieces: Mapping[Leaf, Piece], body: Piece | None = None
) -> Piece:
    """Scalars and a tensor, over the scalars that divide; what comes last needs no parentheses around it."""
    above = [_power(part, power, True, pieces) for part, power in form.factors]
    below = [_power(part, power, True, pieces) for part, power in form.divisors]
    if body is not None:
        above.append(body)
    if not factors and len(above) == 1:
        top = above[0].text if below else above[0].body
    else:
        last = Level.PRODUCT if body is None else Level.ELEMENTWISE
        if body is None and above and above[-1].level == last and mixes_notations(form, -1):
            last = Level.POWER
        levels = [Level.POWER] * (len(above) - 1) + [last]
        top = " ".join([*factors, *(_held(part, least) for part, least in zip(above, levels, strict=False))])
    if not below:
        single = not factors and len(above) == 1
        elementwise = body is not None and body.level == Level.ELEMENTWISE
        return above[0] if single else Piece(top, Level.ELEMENTWISE if elementwise else Level.PRODUCT)
    bottom = " ".join(_held(divisor, Level.POWER) for divisor in below) if len(below) > 1 else below[0].text
    return Piece(rf"\frac{{{top or '1'}}}{{{bottom}}}", Level.POWER)


def _scaled(form: Scaled, pieces: Mapping[Leaf, Piece]) -> Piece:
    factors = [] if abs(rounded(form.value)) == 1 else [_number(abs(form.value)).body]
    factors += map(latex_name, form.sizes)
    body = None if form.body is None else _render(form.body, pieces)
    found = _quotient(factors, form.scalars or Elementwise(()), pieces, body)
    if found.negative or (found.level < Level.ELEMENTWISE and form.value < 0):
        found = Piece(_held(found, Level.ELEMENTWISE), Level.PRODUCT)
    return found._replace(negative=form.value < 0)


def _indexed(form: Indexed, pieces: Mapping[Leaf, Piece]) -> Piece:
    factors = [
        _entry(_held(_render(part, pieces), Level.ATOM), list(map(axis_text, axes)))
        for part, axes in form.factors
    ]
    kept = labels_of(form.output)
    inside = labels_of(axis for _, axes in form.factors for axis in axes)
    bounds = {label: f"<{size}" for label, size in form.notes}
    summed = [letter(label) + bounds.get(label, "") for label in sorted(inside - kept)]
    body = " ".join(factors) or "1"
    if summed:
        body = rf"\sum_{{{','.join(summed)}}} {body}"
    if not form.output:
        return Piece(body, Level.SUM if summed else Level.PRODUCT)
    ends = [rf",\, {letter(label)}<{size}" for label, size in form.notes if label in kept]
    place = _subscript(list(map(axis_text, form.output)))
    return Piece(rf"\left[{body}\right]_{{{place}{''.join(ends)}}}", Level.POWER)


def _entry(body: str, labels: Sequence[Label]) -> str:
    if not labels:
        return body
    held = body.startswith(r"\left(") and body.endswith(r"\right)")
    base = f"{{{body}}}" if re.search(r"(?<!\\)[_^]", body) and not held else body
    return f"{base}_{{{_subscript(labels)}}}"


def _subscript(labels: Sequence[Label]) -> str:
    texts = [re.sub(r"([a-z])(\d+)", r"\1_{\2}", str(label)) for label in labels]
    return ("" if all(len(text) == 1 for text in texts) else ",").join(texts)
