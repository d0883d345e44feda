"""Formulas as in R, and the design matrices that they mean on public ranges and categories.

A formula is ``y ~ x + C(g)``: ``a:b`` is an interaction, ``a*b`` stands for ``a + b + a:b``, ``-
1`` or ``+ 0`` leaves the intercept out, ``- a`` a term; names with other signs than letters,
digits, ``_`` and ``.`` stand in backquotes. A column with public categories is a factor with or
without ``C()``. Factors are coded as R codes them (Chambers & Hastie 1992, section 2.4.1): by
treatment contrasts, the first category being the reference, where the term without the factor is
in the model, else by an indicator of every category. A record of a category that is not listed
is left out, as R leaves out missing values.

*Basis.* Numbers are scaled to u in [-1, 1] by their ranges. A column of the design, in the
users' units, is a product of numbers mid + half u and of indicators: a known linear combination
of products of some of the u and of the indicators. All of these products are the *basis*; its
first element is 1. Every basis element is at most 1 in size, so that what a record contributes
is bounded by how many of them are not 0 for any combination of categories.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from mustdp.errors import InvalidParameter
from mustdp.estimation.schema import PublicSchema, Range
from mustdp.numerics.arrays import FloatArray

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
        return _Parser(text).formula()


class _Parser:
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
