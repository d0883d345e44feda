"""Linear models by formula: coefficients, R^2 and an F test from released moments of the design.

*First round.* With b the basis of a record and y the response scaled to [-1,
1], z = (b, y), every record adds z z', of which each different product is added up once,
multiplied by the root of how often it stands in the matrix: then the norm of a contribution is
the Frobenius norm |z z'| = |z|^2 <= k + 1, where k is the largest number of basis elements that
are not 0 together. Two contributions have the inner product (z.t)^2 >= 0, so they are at most
sqrt(2) (k + 1) apart, and so is one from nothing. Where the number of records is public and none
is left out, the constant is not released: the radius is sqrt((k + 1)^2 - 1) then, and the
constant cancels between two.

*Estimate.* The span of the design has the orthonormal coordinates Q on the basis. With S the sum
of z z', A = Q'SQ and r the response in the coordinates of z, theta = A^-1 Q'S r, and the
residual of a record is e = (r - Q theta).z =: v.z. Noise E in S moves theta by A^-1 Q'E v to
first order, which gives its variance, and by -A^-1 Q'E Q A^-1 Q'E v to second, whose expectation
is known and taken off.

*Second round.* v is public now. Every record adds e^2 b b' over the largest e^2, which follows
from the ranges (the sandwich of White 1980; HC1), beside the square of its influence on R^2.
Contributions have norm at most k in the first and k/2 in the second, so sqrt(5)/2 k together;
both are positive, in the sense of matrices and of numbers, so two of them are at most sqrt(2)
times that apart.

*R^2* is that of the population: 1 - RSS/TSS with the expected effects of fitting, k coordinates
to n records and to the noise, taken off RSS. Its variance has the influence -(e^2 - (1 - R^2)
a^2)/TSS of records, a the centred response, the noise along the same gradient, and the variance
of the quadratic part, 2 tr((A^-1 V)^2), which is all that is left where R^2 = 0.

*F test* that all coefficients but the intercept are 0: Wald's, over the number of coefficients,
with the covariance of sampling and noise together. Sampling variances are made positive in the
directions in which the noise hides them, as those of single estimates are (``result.py``).
"""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import ClassVar

import numpy as np
from scipy.linalg import solve_triangular
from scipy.special import fdtrc

from mustdp.errors import InvalidParameter
from mustdp.estimation.queries import BoundedSum, NoiseCovariance, NoisySums, Piece, present
from mustdp.estimation.result import (
    CLEARLY,
    LEAST_CHANCE,
    UNBOUNDED,
    UNCLEAR,
    Interval,
    Spread,
    Support,
    Test,
    positive_mean,
    released_spread,
    t_chance,
    t_interval,
    vacuous_interval,
)
from mustdp.estimation.schema import PublicSchema, Range
from mustdp.estimation.statistics.moments import LEAST_EIGENVALUE, SINGULAR
from mustdp.estimation.statistics.statistic import (
    SlotRelease,
    Statistic,
    StatisticRequest,
    register,
    unknown_statistic,
)
from mustdp.numerics.arrays import FloatArray, IntArray

# Formulas as in R, and the design matrices that they mean on public ranges and categories.
#
# A formula is ``y ~ x + C(g)``: ``a:b`` is an interaction, ``a*b`` means ``a + b + a:b``,
# ``- 1`` or ``+ 0`` leaves the intercept out, ``- a`` a term; names with other signs than
# letters, digits, ``_`` and ``.`` stand in backquotes. A column with public categories is a
# factor with or without ``C()``. Factors are coded as R codes them (Chambers & Hastie 1992,
# section 2.4.1): by treatment contrasts, the first category being the reference, where the term
# without the factor is in the model, else by an indicator of every category. A record of a
# category that is not listed is left out, as R leaves out missing values.
#
# *Basis.* Numbers are scaled to u in [-1, 1] by their ranges. A column of the design, in the
# users' units, is a product of numbers mid + half u and of indicators: a known linear combination
# of products of some of the u and of the indicators. All of these products are the *basis*; its
# first element is 1. Every basis element is at most 1 in size, so that what a record contributes
# is bounded by how many of them are not 0 for any combination of categories.

_TOKEN = re.compile(r"\s*(`[^`]+`|[^\W\d][\w.]*|\d+|[~+\-*:()])")
#: Elements of a basis, and combinations of categories that are looked at.
_MOST_BASIS, _MOST_COMBINATIONS = 40, 2**14

Term = tuple[str, ...]


@dataclass(frozen=True)
class Formula:
    """What a formula says: the response, whether there is an intercept, terms and factors."""

    text: str
    response: str
    intercept: bool
    terms: tuple[Term, ...]
    factors: tuple[str, ...]

    @property
    def variables(self) -> tuple[str, ...]:
        """The names on the right, in the order of appearance."""
        return tuple(dict.fromkeys(name for term in self.terms for name in term))

    @classmethod
    def read(cls, text: str) -> Formula:
        """The formula behind a text.

        >>> found = Formula.read("y ~ x*C(g) - 1")
        >>> found.terms, found.intercept, found.factors
        ((('x',), ('g',), ('x', 'g')), False, ('g',))
        """
        return _FormulaParser(text).formula()


class _FormulaParser:
    """Recursive descent: sums of products of interactions of names."""

    def __init__(self, text: str) -> None:
        self.text = " ".join(str(text).split())
        self.tokens: list[str] = []
        self.factors: dict[str, None] = {}
        at = 0
        while at < len(self.text):
            found = _TOKEN.match(self.text, at)
            if found is None:
                raise self.refusal()
            self.tokens.append(found[1])
            at = found.end()

    def refusal(self, reason: str = "must be a formula such as y ~ x + C(g)") -> InvalidParameter:
        return InvalidParameter.refusing("statistic", reason, repr(self.text))

    def formula(self) -> Formula:
        response = self.name()
        if self.take() != "~":
            raise self.refusal()
        terms = self.sum({(): None})
        if self.tokens:
            raise self.refusal()
        if any(response in term for term in terms):
            raise self.refusal("must not have the response on both sides")
        if not terms:
            raise self.refusal("must have a term")
        ordered = sorted((term for term in terms if term), key=len)
        return Formula(self.text, response, () in terms, tuple(ordered), tuple(self.factors))

    def take(self) -> str:
        if not self.tokens:
            raise self.refusal()
        return self.tokens.pop(0)

    def peek(self) -> str:
        return self.tokens[0] if self.tokens else ""

    def name(self) -> str:
        found = self.take()
        if found == "C" and self.peek() == "(":
            self.take()
            own = self.name()
            if self.take() != ")":
                raise self.refusal()
            self.factors.setdefault(own)
            return own
        if found.startswith("`"):
            return found[1:-1]
        if not (found[0].isalpha() or found[0] == "_") or self.peek() == "(":
            raise self.refusal()
        return found

    def sum(self, start: dict[Term, None]) -> dict[Term, None]:
        """Terms in their order; the empty one is the intercept."""
        found, sign = dict(start), "+"
        if self.peek() in ("+", "-"):
            sign = self.take()
        while True:
            if self.peek() in ("0", "1"):
                own: dict[Term, None] = {(): None}
                if self.take() == "0":
                    sign = "+" if sign == "-" else "-"
            else:
                own = self.product()
            for term in own:
                same = next((one for one in found if set(one) == set(term)), None)
                if sign == "+" and same is None:
                    found[term] = None
                elif sign == "-" and same is not None:
                    del found[same]
            if self.peek() not in ("+", "-"):
                return found
            sign = self.take()

    def product(self) -> dict[Term, None]:
        found = self.interaction()
        while self.peek() == "*":
            self.take()
            other = self.interaction()
            found = {**found, **other, **_crossed(found, other)}
        return found

    def interaction(self) -> dict[Term, None]:
        found = self.atom()
        while self.peek() == ":":
            self.take()
            found = _crossed(found, self.atom())
        return found

    def atom(self) -> dict[Term, None]:
        if self.peek() != "(":
            return {(self.name(),): None}
        self.take()
        found = self.sum({})
        if self.take() != ")":
            raise self.refusal()
        return found


def _crossed(first: dict[Term, None], second: dict[Term, None]) -> dict[Term, None]:
    return {tuple(dict.fromkeys((*a, *b))): None for a in first for b in second}


# The design matrix.


@dataclass(frozen=True)
class Element:
    """A product of scaled numbers and of indicators: places among the columns, and levels."""

    numbers: tuple[int, ...] = ()
    levels: tuple[tuple[int, int], ...] = ()

    def times(self, other: Element) -> Element | None:
        """The product; None where no record has both levels."""
        levels = dict(self.levels)
        for place, level in other.levels:
            if levels.setdefault(place, level) != level:
                return None
        numbers = tuple(sorted((*self.numbers, *other.numbers)))
        return Element(numbers, tuple(sorted(levels.items())))


@dataclass(frozen=True, eq=False)
class DesignMatrix:
    """Columns of a design as combinations of a bounded basis.

    ``columns`` are positions in the schema, the response last; ``matrix`` (basis, names) has the
    columns of the design in the users' units.
    """

    formula: Formula
    columns: tuple[int, ...]
    ranges: tuple[Range | None, ...]
    categories: tuple[tuple[str, ...], ...]
    basis: tuple[Element, ...]
    names: tuple[str, ...]
    matrix: FloatArray

    @classmethod
    def of(cls, formula: Formula, schema: PublicSchema, allowed: Sequence[int]) -> DesignMatrix:
        """The design of a formula on these columns of a schema."""
        known = {schema.columns[k].name: k for k in allowed}
        for name in (*formula.variables, formula.response):
            if name not in known:
                raise InvalidParameter.refusing(
                    "statistic", f"must have a formula of columns among {', '.join(known)}",
                    repr(formula.text),
                )  # fmt: skip
        variables = (*formula.variables, formula.response)
        columns = tuple(known[name] for name in variables)
        categories = tuple(schema.columns[k].categories for k in columns)
        for name, own in zip(variables, categories, strict=True):
            if name in formula.factors and not own:
                raise InvalidParameter.refusing(
                    "categories", f"must be given for C({name})", "none"
                )
            if name in formula.factors and name != formula.response and len(own) < 2:
                raise InvalidParameter.refusing(
                    "categories", f"of {name} must be at least two in a formula", f"{len(own)}"
                )
        ranges = tuple(
            None if own else schema.columns[k].numeric
            for k, own in zip(columns, categories, strict=True)
        )
        made = _Coding(formula, ranges, categories)
        return cls(formula, columns, ranges, categories, made.basis, made.names, made.matrix)

    @cached_property
    def combinations(self) -> list[dict[int, int]]:
        """All levels that a record can have in the factors on the right."""
        places = [k for k, own in enumerate(self.categories[:-1]) if own]
        levels = [range(len(self.categories[k])) for k in places]
        if math.prod(map(len, levels)) > _MOST_COMBINATIONS:
            raise InvalidParameter.refusing(
                "categories",
                f"must have at most {_MOST_COMBINATIONS} combinations in a formula",
                f"{math.prod(map(len, levels))}",
            )
        return [dict(zip(places, one, strict=True)) for one in itertools.product(*levels)]

    @cached_property
    def active(self) -> FloatArray:
        """Which basis elements are not 0, (combinations, basis)."""
        return np.array([
            [float(all(own[k] == level for k, level in one.levels)) for one in self.basis]
            for own in self.combinations
        ])  # fmt: skip

    @property
    def most_active(self) -> float:
        """The largest sum of squares of the basis."""
        return float(self.active.sum(axis=1).max())

    def response(self, values: FloatArray) -> FloatArray:
        """The response in [-1, 1]; of two categories the second is 1, the first -1."""
        own = self.ranges[-1]
        if own is None:
            return np.where(values[:, -1] == 0.0, -1.0, 1.0)
        return np.clip((values[:, -1] - own.mid) / own.half, -1.0, 1.0)

    def here(self, values: FloatArray) -> FloatArray:
        """1 for records of listed categories, else 0."""
        found = np.ones(len(values))
        for k, own in enumerate(self.categories):
            if own:
                found *= values[:, k] < len(own)
        return found

    def features(self, values: FloatArray) -> FloatArray:
        """The basis of every record, (rows, basis); of one that is left out all are 0."""
        scaled = [
            None if own is None else np.clip((values[:, k] - own.mid) / own.half, -1.0, 1.0)
            for k, own in enumerate(self.ranges[:-1])
        ]
        here = self.here(values)
        found = np.empty((len(values), len(self.basis)))
        for j, one in enumerate(self.basis):
            column = here.copy()
            for k, level in one.levels:
                column *= values[:, k] == level
            for k in one.numbers:
                own = scaled[k]
                if own is not None:
                    column *= own
            found[:, j] = column
        return found


class _Coding:
    """Columns as R makes them, on the basis."""

    def __init__(
        self,
        formula: Formula,
        ranges: Sequence[Range | None],
        categories: Sequence[tuple[str, ...]],
    ) -> None:
        self.ranges, self.categories = ranges, categories
        place = {name: k for k, name in enumerate(formula.variables)}
        self.elements: dict[Element, int] = {Element(): 0}
        columns: list[tuple[str, dict[Element, float]]] = []
        if formula.intercept:
            columns.append(("intercept", {Element(): 1.0}))
        present, spanned = {frozenset(term) for term in formula.terms}, formula.intercept
        for term in formula.terms:
            choices: list[list[tuple[str, int, int | None]]] = []
            for name in term:
                k = place[name]
                if not categories[k]:
                    choices.append([(name, k, None)])
                    continue
                rest = frozenset(term) - {name}
                contrasts = rest in present if rest else spanned
                if not rest:
                    spanned = True
                labels = list(enumerate(categories[k]))[int(contrasts) :]
                choices.append([(f"{name}[{label}]", k, level) for level, label in labels])
            columns += [
                (":".join(name for name, _, _ in own), self._expanded(own))
                for own in itertools.product(*choices)
            ]
        if len(self.elements) > _MOST_BASIS:
            raise InvalidParameter.refusing(
                "statistic", f"must have a formula of at most {_MOST_BASIS} products of columns",
                f"{len(self.elements)}",
            )  # fmt: skip
        self.basis = tuple(self.elements)
        self.names = tuple(name for name, _ in columns)
        self.matrix = np.zeros((len(self.basis), len(columns)))
        for j, (_, parts) in enumerate(columns):
            for element, weight in parts.items():
                self.matrix[self.elements[element], j] = weight

    def _expanded(self, own: Sequence[tuple[str, int, int | None]]) -> dict[Element, float]:
        """The product of mid + half u over the numbers, times indicators."""
        levels = tuple(sorted((k, level) for _, k, level in own if level is not None))
        numbers = [(k, self.ranges[k]) for _, k, level in own if level is None]
        found: dict[Element, float] = {}
        for chosen in itertools.product((True, False), repeat=len(numbers)):
            weight, used = 1.0, []
            for (k, one), scaled in zip(numbers, chosen, strict=True):
                if one is not None:
                    weight *= one.half if scaled else one.mid
                if scaled:
                    used.append(k)
            element = Element(tuple(sorted(used)), levels)
            self.elements.setdefault(element, len(self.elements))
            found[element] = weight
        return found


#: What rounding may add to a norm.
_SLACK = 1.0 + 2.0**-40
#: Rows whose products are held at a time.
_ROWS = 2**13
#: What the square of the influence on R^2 weighs beside the sandwich.
_R2_WEIGHT = 0.5


class DesignProducts:
    """The different products of two of some features, and where they stand in the matrix."""

    def __init__(self, design: DesignMatrix, *, response: bool) -> None:
        features: list[tuple[Element, int]] = [(one, 0) for one in design.basis]
        if response:
            features.append((Element(), 1))
        places: dict[tuple[Element, int], int] = {}
        size = len(features)
        index = np.full((size, size), -1, dtype=np.int64)
        self.pairs: list[tuple[int, int]] = []
        for i, (first, own) in enumerate(features):
            for j in range(i, size):
                second, other = features[j]
                product = first.times(second)
                if product is None:
                    continue
                key = (product, own + other)
                if key not in places:
                    places[key] = len(places)
                    self.pairs.append((i, j))
                index[i, j] = index[j, i] = places[key]
        self.index = index
        counts = Counter(index[index >= 0].tolist())
        self.roots = np.sqrt([counts[k] for k in range(len(places))])

    def __len__(self) -> int:
        return len(self.pairs)

    def of(self, features: FloatArray) -> FloatArray:
        """All products of every row, each times its root."""
        found = np.empty((len(features), len(self)))
        for k, (i, j) in enumerate(self.pairs):
            found[:, k] = features[:, i] * features[:, j] * self.roots[k]
        return found

    def matrix(self, sums: FloatArray) -> FloatArray:
        """The sums of products as a matrix."""
        found: FloatArray = np.append(sums, 0.0)[self.index]
        return found

    def along(self, left: FloatArray, right: FloatArray) -> FloatArray:
        """left' N_k right for every product k, (..., products), N_k the matrix that it fills."""
        outer = left.reshape(len(left), 1, -1, 1) * right.reshape(1, len(right), 1, -1)
        found = np.zeros((len(self), *outer.shape[2:]))
        inside = self.index >= 0
        np.add.at(found, self.index[inside], outer[inside])
        return np.moveaxis(found, 0, -1)


def sums_in_pieces(part: BoundedSum, piece: Piece, per_step: float, squared: int = 0) -> FloatArray:
    """``BoundedSum.sums`` with few rows at a time: there may be many products.

    Of the last ``squared`` numbers, weights count twice.
    """
    found = np.zeros((part.schema.slots, part.width))
    for start in range(0, len(piece), _ROWS):
        rows = slice(start, start + _ROWS)
        values, slots, weights = present(
            Piece(
                piece.values[rows],
                piece.slots[rows],
                None if piece.weights is None else piece.weights[rows],
            ),
            part.columns,
        )
        whole = part.rows(values, slots) * per_step
        if weights is not None:
            whole *= weights[:, None]
            whole[:, part.width - squared :] *= weights[:, None]
        np.trunc(whole, out=whole)
        for k in range(part.width):
            found[:, k] += np.bincount(slots, whole[:, k], part.schema.slots)
    return found


class OfDesign(BoundedSum):
    """Sums over the records of a design, some of which may be left out."""

    tells_records: ClassVar[bool] = False
    design: DesignMatrix

    @property
    def diameter(self) -> float:
        """Proved above."""
        return math.sqrt(2.0) * self.radius * _SLACK

    def sums(self, piece: Piece, per_step: float) -> FloatArray:
        """Few rows at a time."""
        return sums_in_pieces(self, piece, per_step)


@dataclass(frozen=True)
class DesignMoments(OfDesign):
    """Sums of all different products of the basis and the response; the number of records first."""

    schema: PublicSchema
    columns: tuple[int, ...]
    formula: str

    @cached_property
    def design(self) -> DesignMatrix:  # type: ignore[override]
        """The design of the formula."""
        return DesignMatrix.of(Formula.read(self.formula), self.schema, self.columns)

    @cached_property
    def products(self) -> DesignProducts:
        """Those of z z'."""
        return DesignProducts(self.design, response=True)

    @property
    def _counted(self) -> bool:
        """Whether the number of records that are not left out must be released."""
        return self.schema.counted or any(self.design.categories)

    @property
    def width(self) -> int:
        """The constant is left out where it is public."""
        return len(self.products) - int(not self._counted)

    @property
    def _norm(self) -> float:
        return self.design.most_active + 1.0

    @property
    def radius(self) -> float:
        """Proved above."""
        own = self._norm**2 - (0.0 if self._counted else 1.0)
        return math.sqrt(own) * _SLACK

    @property
    def diameter(self) -> float:
        """Proved above."""
        return math.sqrt(2.0) * self._norm * _SLACK**2

    def rows(self, values: FloatArray, slots: IntArray) -> FloatArray:
        """Products times their roots."""
        design = self.design
        response = design.response(values) * design.here(values)
        found = self.products.of(
            np.concatenate([design.features(values), response[:, None]], axis=1)
        )
        return found if self._counted else found[:, 1:]

    def natural(self, vectors: FloatArray) -> FloatArray:
        """The sums without their roots."""
        if not self._counted:
            known = np.full((len(vectors), 1), float(self.schema.n or 0))
            vectors = np.concatenate([known * self.products.roots[0], vectors], axis=1)
        return vectors / self.products.roots

    @cached_property
    def covariance(self) -> NoiseCovariance:
        """Independent."""
        scales = 1.0 / self.products.roots
        scales[0] *= float(self._counted)
        return NoiseCovariance.of(np.diag(scales))


@dataclass(frozen=True, eq=False)
class Sandwich(OfDesign):
    """Sums of e^2 b b' over ``largest``, and of squared influences on R^2 over their bounds.

    ``residual`` and ``centred`` are what e and a are in the coordinates of z, (slots, z); ``kept``
    is 1 - R^2 in every slot.
    """

    moments: DesignMoments
    residual: FloatArray
    centred: FloatArray
    kept: FloatArray
    schema: PublicSchema = field(init=False)
    columns: tuple[int, ...] = field(init=False)
    largest: FloatArray = field(init=False)
    largest_influence: FloatArray = field(init=False)

    def __post_init__(self) -> None:
        active = np.concatenate([self.design.active, np.ones((len(self.design.active), 1))], axis=1)
        error, fitted = (
            (np.abs(own) @ active.T).max(axis=1)
            for own in (self.residual, self.centred - self.residual)
        )
        # e^2 - k a^2 with a = e + f is (1 - k) e^2 - k f^2 - 2 k e f.
        kept = self.kept
        alone = np.maximum((1.0 - kept) * error**2, kept * fitted**2)
        influence = alone + 2.0 * kept * error * fitted
        setting = {
            "schema": self.moments.schema,
            "columns": self.moments.columns,
            "largest": np.maximum(error**2, 1e-300),
            "largest_influence": np.maximum(influence, 1e-300),
        }
        for name, value in setting.items():
            object.__setattr__(self, name, value)

    @property
    def design(self) -> DesignMatrix:  # type: ignore[override]
        """That of the first round."""
        return self.moments.design

    @cached_property
    def products(self) -> DesignProducts:
        """Those of b b'."""
        return DesignProducts(self.design, response=False)

    @property
    def width(self) -> int:
        """The products, and one number for R^2."""
        return len(self.products) + 1

    @property
    def radius(self) -> float:
        """Proved above."""
        return self.design.most_active * math.hypot(1.0, _R2_WEIGHT) * _SLACK

    @property
    def _weight(self) -> float:
        return _R2_WEIGHT * self.design.most_active

    def rows(self, values: FloatArray, slots: IntArray) -> FloatArray:
        """One product after the other, so that no rounding depends on where a row stands."""
        design = self.design
        features, response = design.features(values), design.response(values)
        here = design.here(values)
        error, centred = np.zeros(len(values)), np.zeros(len(values))
        for found, slopes in ((error, self.residual), (centred, self.centred)):
            for k in range(features.shape[1]):
                found += features[:, k] * slopes[slots, k]
            found += response * here * slopes[slots, -1]
        share = np.minimum(error**2 / self.largest[slots], 1.0)
        influence = (error**2 - self.kept[slots] * centred**2) / self.largest_influence[slots]
        squared = np.minimum(influence**2, 1.0)
        products = self.products.of(features) * share[:, None]
        return np.concatenate([products, self._weight * squared[:, None]], axis=1)

    def sums(self, piece: Piece, per_step: float) -> FloatArray:
        """With weights, influences are multiplied by them: squared here."""
        if piece.weights is not None:
            piece = Piece(piece.values, piece.slots, piece.weights**2)
        return sums_in_pieces(self, piece, per_step)

    @property
    def _roots(self) -> FloatArray:
        return np.append(self.products.roots, self._weight)

    def natural(self, vectors: FloatArray) -> FloatArray:
        """In shares of the bounds, which differ from slot to slot."""
        return vectors / self._roots

    @cached_property
    def covariance(self) -> NoiseCovariance:
        """Independent."""
        return NoiseCovariance(np.zeros(self.width), self._roots**-2.0)


@dataclass(frozen=True, eq=False)
class Fit:
    """What the first round tells about one slot."""

    records: float
    #: None, or why nothing is known.
    hidden: str | None
    inverse: FloatArray  # of A
    theta: FloatArray
    residual: FloatArray
    centred: FloatArray
    score: FloatArray  # covariance that noise gives to A theta
    residual_squares: float
    total_squares: float
    r2: float
    r2_noise: float
    total_hidden: bool = False

    @property
    def noise(self) -> FloatArray:
        """The covariance that noise gives to theta."""
        found: FloatArray = self.inverse @ self.score @ self.inverse
        return found


@register
@dataclass(frozen=True)
class LinearModel(Statistic):
    """A linear model by an R formula: coefficients, R^2 and an F test, in one release.

    Errors are those of White (1980), with no law for the residuals, and account for the noise.
    Records of a category that is not listed are left out.

    Parameters
    ----------
    formula : str
        Such as ``"hours ~ age + C(sex)"``; ``x:z`` is an interaction, ``x*z`` means ``x + z +
        x:z``, ``- 1`` leaves the intercept out. Columns with public categories are
        factors, their first category being the reference.
    columns : str, int or sequence, default=None
        The columns that the formula may name; None means all that are given.

    Examples
    --------
    >>> LinearModel("y ~ x + C(g)").written
    'linear-model:y ~ x + C(g)'
    """

    formula: str
    columns: tuple[str | int, ...] | None = None
    name = "linear-model"
    usage = "linear-model:FORMULA"
    about = "a linear regression by a formula as in R, such as y ~ x + C(g)"
    example = "linear-model:y ~ x"
    fewest = 2
    most = None
    for_bootstrap = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "formula", Formula.read(self.formula).text)
        super().__post_init__()

    @classmethod
    def parse(cls, argument: str | None, text: str) -> Statistic:
        """The formula behind the first colon."""
        if not argument:
            raise unknown_statistic(text)
        return cls(argument)

    @property
    def argument(self) -> str | None:
        """The formula."""
        return self.formula

    def requests(self, schema: PublicSchema) -> Iterator[StatisticRequest]:
        """One model of the columns that the formula names."""
        allowed = self.positions([column.name for column in schema.columns])
        self.check_release()
        self.check_domains(schema)
        self.check_survey(schema)
        design = DesignMatrix.of(Formula.read(self.formula), schema, allowed)
        if design.ranges[-1] is None:
            raise InvalidParameter.refusing(
                "statistic", f"must have a number on the left of {self.formula}",
                repr(design.formula.response),
            )  # fmt: skip
        design.most_active  # noqa: B018  refuses too many combinations
        yield LinearModelRequest(schema, design.columns, self.formula)

    def check_survey(self, schema: PublicSchema) -> None:
        """Neither clusters nor strata."""
        if schema.largest_cluster is not None or schema.shares:
            raise InvalidParameter.refusing(
                "statistic",
                "must not be a model by formula with clusters or strata: ask for regression",
                repr(self.written),
            )


@dataclass(frozen=True)
class ModelRequest(StatisticRequest):
    """A model by formula, in more than one round."""

    formula: str

    @property
    def column(self) -> str:
        """The formula, in results."""
        return self.formula

    @property
    def two_rounds(self) -> bool:
        """Always."""
        return True


@dataclass(frozen=True)
class LinearModelRequest(ModelRequest):
    """A linear model in two rounds."""

    @property
    def name(self) -> str:
        """In results."""
        return "linear-model"

    @cached_property
    def sums(self) -> DesignMoments:
        """Products of the design."""
        return DesignMoments(self.schema, self.columns, self.formula)

    @property
    def weighted_errors(self) -> bool:
        """Yes: weights are in the influences."""
        return True

    def describe(self, cell: str) -> str:
        """Which coefficient, or R^2."""
        if cell == "R2":
            return f"share of the variance explained by the linear model {self.formula}"
        return f"{cell} in the linear model {self.formula}"

    @cached_property
    def _span(self) -> tuple[FloatArray, FloatArray]:
        """Orthonormal coordinates of the design in those of z, and what turns them back."""
        q, r = np.linalg.qr(self.sums.design.matrix)
        return np.vstack([q, np.zeros((1, q.shape[1]))]), r

    @cached_property
    def _target(self) -> FloatArray:
        """The response in units of its half range, in the coordinates of z."""
        own = self.schema.columns[self.columns[-1]].numeric
        found = np.zeros(len(self.sums.design.basis) + 1)
        found[0], found[-1] = own.mid / own.half, 1.0
        return found

    def second_sums(self, first: NoisySums, together: Sequence[StatisticRequest]) -> Sandwich:
        """Residuals of the fit of every slot."""
        fits = [self._fit(first, slot) for slot in range(self.schema.slots)]
        return Sandwich(
            self.sums,
            np.stack([fit.residual for fit in fits]),
            np.stack([fit.centred for fit in fits]),
            np.array([min(max(1.0 - fit.r2, 0.0), 1.0) for fit in fits]),
        )

    def _fit(self, noisy: NoisySums, slot: int) -> Fit:
        products, (span, _), target = self.sums.products, self._span, self._target
        own, variances = noisy.sums[slot], noisy.noise_in(slot).own
        p, n = span.shape[1], float(own[0])
        middle = np.zeros(len(target))
        middle[-1] = 1.0
        least = 1e-9 if self.schema.weighted else p + 2.0
        if not n > max(CLEARLY * math.sqrt(float(variances[0])), least):
            nothing = np.eye(p)
            return Fit(
                max(n, least), SINGULAR, nothing, np.zeros(p), middle, middle, nothing,
                1.0, 1.0, 0.0, 1.0,
            )  # fmt: skip
        matrix = products.matrix(own) / n
        variances = variances / n**2
        gram = span.T @ matrix @ span
        bends = products.along(span, span)  # (p, p, products)
        values, directions = np.linalg.eigh(gram)
        least_along = np.einsum("i,ijk,j->k", directions[:, 0], bends, directions[:, 0])
        error = math.sqrt(float(least_along**2 @ variances))
        hidden = None if values[0] > max(CLEARLY * error, LEAST_EIGENVALUE) else SINGULAR
        inverse = (directions / np.maximum(values, LEAST_EIGENVALUE)) @ directions.T
        theta = inverse @ (span.T @ matrix @ target)
        raw = target - span @ theta
        moves = products.along(span, raw[:, None])[:, 0, :]  # (p, products)
        bias = -inverse @ np.einsum("ijk,jk->i", bends, (inverse @ moves) * variances)
        if hidden is None:
            theta = theta - bias
        residual = target - span @ theta
        moves = products.along(span, residual[:, None])[:, 0, :]
        score = (moves * variances) @ moves.T
        centred = target.copy()
        if self.sums.design.formula.intercept:
            centred[0] -= float(matrix[0] @ target)
        spread = products.along(np.eye(len(target))[:, :1], centred[:, None])[0, 0]
        total = float(centred @ matrix @ centred) + float(spread**2 @ variances)
        rest = float(raw @ matrix @ raw) + float(np.trace(inverse @ score))
        of_rest = products.along(residual[:, None], residual[:, None])[0, 0]
        of_total = products.along(centred[:, None], centred[:, None])[0, 0]
        noise_dominated = not total > CLEARLY * math.sqrt(float(of_total**2 @ variances))
        total = max(total, 1e-12)
        kept = rest / total
        noise = float((of_rest - kept * of_total) ** 2 @ variances) / total**2
        return Fit(
            n, hidden, inverse, theta, residual, centred, score, rest, total, 1.0 - kept, noise,
            noise_dominated,
        )  # fmt: skip

    def read(self, at: SlotRelease) -> Iterator[tuple[str, Interval]]:
        """Coefficients and R^2 of one slot, from both rounds."""
        second = at.second
        if second is None or not isinstance(second.part, Sandwich):
            raise InvalidParameter("the second round must be one of residuals")
        fit, names = self._fit(at.first, at.slot), self.sums.design.names
        if fit.hidden is not None:
            for name in names:
                yield name, vacuous_interval(UNBOUNDED, fit.hidden)
            yield "R2", vacuous_interval((0.0, 1.0), fit.hidden)
            return
        part, (span, back) = second.part, self._span
        p, n = len(names), fit.records
        scale = at.unsampled * (1.0 if self.schema.weighted else n / (n - p)) / n**2
        sums = second.sums[at.slot]
        variances = second.noise.own * float(second.variances[at.slot])
        meat = float(part.largest[at.slot]) * scale
        basis = span[:-1]
        # theta to the users' units
        half = self.schema.columns[self.columns[-1]].numeric.half
        turn = half * solve_triangular(back, np.eye(p))
        outward = turn @ fit.inverse
        sampling = basis.T @ part.products.matrix(sums[:-1]) @ basis * meat
        bends = part.products.along(basis, basis) * meat
        tested = int(self.sums.design.formula.intercept)
        both = outward @ sampling @ outward.T
        noise = turn @ fit.noise @ turn.T
        beta = turn @ fit.theta
        for j, name in enumerate(names):
            along = np.einsum("i,ijk,j->k", outward[j], bends, outward[j])
            error = math.sqrt(float(along**2 @ variances[:-1]))
            doubt = 2.0 * float(both[j, j]) ** 2 / (n - p) if n > p else 0.0
            spread = released_spread(float(both[j, j]), error, float(noise[j, j]), doubt)
            found = t_interval(float(beta[j]), spread, at.level)
            ratio = float(beta[j]) / math.sqrt(spread.variance)
            own = t_chance(spread.degrees_of_freedom, ratio)
            test = Test("t", ratio, (spread.degrees_of_freedom,), own)
            yield name, replace(found, test=test)
        yield "R2", self._r2(at, fit, part, sums, variances, sampling, scale, (
            outward[tested:], bends, both[tested:, tested:], noise[tested:, tested:], beta[tested:],
        ))  # fmt: skip

    def _r2(
        self,
        at: SlotRelease,
        fit: Fit,
        part: Sandwich,
        sums: FloatArray,
        variances: FloatArray,
        sampling: FloatArray,
        scale: float,
        tested: tuple[FloatArray, FloatArray, FloatArray, FloatArray, FloatArray],
    ) -> Interval:
        """R^2 with the test that it is 0."""
        support: Support = (0.0, 1.0)
        fitted = max(float(np.trace(fit.inverse @ sampling)), 0.0)
        kept = (fit.residual_squares + fitted) / fit.total_squares
        own = float(part.largest_influence[at.slot] / fit.total_squares) ** 2 * scale
        first = own * float(sums[-1])
        error = own * math.sqrt(float(variances[-1]))
        whole = fit.inverse @ (sampling + fit.score)
        curved = 2.0 * float(np.trace(whole @ whole)) / fit.total_squares**2
        spread = released_spread(first, error, fit.r2_noise)
        spread = Spread(
            spread.sampling + max(curved, 0.0), spread.noise, spread.degrees_of_freedom,
            spread.noise_dominated,
        )  # fmt: skip
        found = t_interval(1.0 - kept, spread, at.level, support, curved=True)
        if fit.total_hidden:
            found = vacuous_interval(support, UNCLEAR)
        if not len(tested[-1]):
            return found
        return replace(found, test=wald_test(*tested, variances[:-1], fit.records - len(fit.theta)))


def wald_test(
    outward: FloatArray,
    bends: FloatArray,
    sampling: FloatArray,
    noise: FloatArray,
    beta: FloatArray,
    variances: FloatArray,
    freedom: float,
) -> Test:
    """That all of ``beta`` are 0; ``noise`` is known, ``sampling`` was released with noise.

    ``bends`` and ``outward`` say how the noise of ``variances`` gets into ``sampling``.
    """
    root = np.linalg.cholesky(noise)
    turned = solve_triangular(root, outward, lower=True)
    half = solve_triangular(root, sampling, lower=True)
    values, directions = np.linalg.eigh(solve_triangular(root, half.T, lower=True))
    away = directions.T @ solve_triangular(root, beta, lower=True)
    found = 0.0
    for k, value in enumerate(values.tolist()):
        along = directions[:, k] @ turned
        error = math.sqrt(float(np.einsum("i,ijk,j->k", along, bends, along) ** 2 @ variances))
        used = positive_mean(value, error) if value < error else value
        found += float(away[k]) ** 2 / (1.0 + used)
        if error > 0 and value >= error:
            freedom = min(freedom, 2.0 * ((1.0 + used) / error) ** 2)
    count, freedom = len(beta), max(freedom, 1.0)
    return Test(
        "F",
        found / count,
        (count, freedom),
        max(float(fdtrc(count, freedom, found / count)), LEAST_CHANCE),
    )
