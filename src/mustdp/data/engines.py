"""Records that stay in a database: DuckDB relations, tables and files, and Spark data frames.

A query goes there and rows of whole numbers come back. What differs between the two is the
:class:`Dialect`; both have IEEE 754 arithmetic in double precision, evaluate an expression in the
order in which it is written. Texts are compared byte by byte. Numbers are written so that the very
double is read, and nothing that an engine says in an error is passed on, as it may quote data.
"""

from __future__ import annotations

import re
import uuid
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mustdp.data.columns import (
    ENGINE_MARK,
    Category,
    ColumnRequest,
    Day,
    Number,
    Reading,
    quoted,
    refuse_type,
)
from mustdp.errors import InvalidParameter
from mustdp.extras import required
from mustdp.limits import LARGEST_SIZE
from mustdp.numerics.checks import unquoted

_WHITE = " \t\n\r\f\v"
_INTEGERS = r"u?(tiny|small|big|huge)?int(eger)?|byte|short|long|(small|big)int"
_FLOATS = r"float|double|real"


def double(value: float) -> str:
    """A number as SQL: the text of it, which every engine reads as this double."""
    return f"CAST('{float(value)!r}' AS DOUBLE)"


class Dialect(ABC):
    """What the engines write differently."""

    @abstractmethod
    def name(self, name: str) -> str:
        """A name in its quotation marks."""

    @abstractmethod
    def text(self, text: str) -> str:
        """A text in its quotation marks."""

    @abstractmethod
    def truncated(self, expression: str) -> str:
        """A double below 2^52, cut towards zero, as an integer of 64 bits."""

    @abstractmethod
    def total(self, expression: str) -> str:
        """A sum of integers of 64 bits that is exact."""

    @abstractmethod
    def stripped(self, expression: str) -> str:
        """A text without white space around it."""

    @abstractmethod
    def octets(self, expression: str) -> str:
        """The bytes of a text, which are equal or not whatever collation is in force."""


class DuckDialect(Dialect):
    """DuckDB: sums of BIGINT are HUGEINT."""

    def name(self, name: str) -> str:
        """With double quotation marks."""
        return '"' + name.replace('"', '""') + '"'

    def text(self, text: str) -> str:
        """A backslash is a backslash."""
        return "'" + text.replace("'", "''") + "'"

    def truncated(self, expression: str) -> str:
        """A cast alone would round to the nearest."""
        return f"CAST(trunc({expression}) AS BIGINT)"

    def total(self, expression: str) -> str:
        """As it is."""
        return f"SUM({expression})"

    def stripped(self, expression: str) -> str:
        """Of all that Python's side takes for white space."""
        return f"trim({expression}, {self.text(_WHITE)})"

    def octets(self, expression: str) -> str:
        """In UTF-8."""
        return f"encode({expression})"


class SparkDialect(Dialect):
    """Spark SQL, where a cast truncates and a sum of BIGINT is one: wide decimals are exact."""

    def name(self, name: str) -> str:
        """With back quotes."""
        return "`" + name.replace("`", "``") + "`"

    def text(self, text: str) -> str:
        """A backslash begins an escape."""
        return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"

    def truncated(self, expression: str) -> str:
        """As Java does."""
        return f"CAST({expression} AS BIGINT)"

    def total(self, expression: str) -> str:
        """Of decimals with room for 2^64 integers of 64 bits."""
        return f"SUM(CAST({expression} AS DECIMAL(20, 0)))"

    def stripped(self, expression: str) -> str:
        """Of all that Python's side takes for white space."""
        return f"trim(BOTH {self.text(_WHITE)} FROM {expression})"

    def octets(self, expression: str) -> str:
        """In UTF-8."""
        return f"CAST({expression} AS BINARY)"


@dataclass(frozen=True, eq=False)
class Engine(ABC):
    """A table in an engine: its columns with their types, and queries about it."""

    where: str
    columns: dict[str, str]
    dialect: Dialect

    @abstractmethod
    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """The answer to a query in which ``records`` is this table."""

    def kind(self, name: str) -> str:
        """The type of a column, in small letters."""
        if name not in self.columns:
            raise InvalidParameter.refusing(
                "columns", f"must be among the columns of {self.where}", quoted(name)
            )
        return self.columns[name].lower()


@dataclass(frozen=True, eq=False)
class DuckTable(Engine):
    """A relation of DuckDB."""

    relation: Any
    #: Kept, as a relation may not keep it.
    connection: Any = None
    #: Whether all columns are texts, each of which is read for itself.
    texts: bool = False

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """Run by the connection that the relation belongs to."""
        found: list[tuple[Any, ...]] = unquoted(
            lambda: self.relation.query("records", query).fetchall(),
            f"{self.where} must answer the query of a release",
        )
        return found


@dataclass(frozen=True, eq=False)
class SparkTable(Engine):
    """A data frame of Spark."""

    frame: Any

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """Run by the frame's session, under a name that is used only here."""
        view = f"mustdp_{uuid.uuid4().hex}"

        def ask() -> list[tuple[Any, ...]]:
            session = self.frame.sparkSession
            self.frame.createOrReplaceTempView(view)
            try:
                asked = f"WITH records AS (SELECT * FROM {view}) {query}"
                return [tuple(row) for row in session.sql(asked).collect()]
            finally:
                session.catalog.dropTempView(view)

        found: list[tuple[Any, ...]] = unquoted(
            ask, f"{self.where} must answer the query of a release"
        )
        return found


def open_engine(data: Any) -> Engine | None:
    """The engine that holds ``data``, or None where records are read here."""
    given = data.data if isinstance(data, Reading) else data
    module = type(given).__module__.partition(".")[0]
    found: Engine | None = None
    if module in ("duckdb", "_duckdb") and hasattr(given, "types"):
        found = _duck(given, "the relation")
    elif module == "pyspark" and hasattr(given, "dtypes") and hasattr(given, "sparkSession"):
        found = SparkTable(
            "the Spark data frame",
            _once(given.dtypes, "the Spark data frame"),
            SparkDialect(),
            given,
        )
    elif isinstance(given, str) and ENGINE_MARK in given:
        found = _duck_file(given)
    if (
        found is not None
        and isinstance(data, Reading)
        and data != Reading(given, missing=data.missing)
    ):
        raise InvalidParameter.refusing(
            "data", "must be read as they are from an engine, but for missing values", "a Reading"
        )
    return found


def _duck(relation: Any, where: str) -> DuckTable:
    pairs = list(zip(relation.columns, map(str, relation.types), strict=True))
    return DuckTable(where, _once(pairs, where), DuckDialect(), relation)


def _once(pairs: Sequence[tuple[str, str]], where: str) -> dict[str, str]:
    """Names are compared as the engines do, which do not tell capitals from small letters."""
    names = [name.lower() for name, _ in pairs]
    if len(set(names)) < len(names):
        raise InvalidParameter(f"{where} must have columns with different names, got one twice")
    return dict(pairs)


def _duck_file(given: str) -> DuckTable:
    """``duckdb::FILE`` is read by DuckDB; ``FILE.duckdb::TABLE`` is a table of a database."""
    duckdb = required("duckdb", "tables and files of DuckDB")
    first, _, second = given.partition(ENGINE_MARK)
    path = Path(second if first == "duckdb" else first)
    if not path.is_file():
        raise InvalidParameter.refusing("data", "must be a file that exists", str(path))

    known = re.search(r"\.(parquet|(csv|tsv)(\.gz)?)$", path.name.lower())
    if first == "duckdb" and known is None:
        raise InvalidParameter.refusing(
            "data", "must be a .parquet, .csv or .tsv file", f"one named {path.name}"
        )
    if first == "duckdb" and re.search(r"[*?\[{]", second):
        raise InvalidParameter.refusing(
            "data", "must be a path without *, ?, [ and {, which DuckDB takes for patterns", second
        )
    texts = first == "duckdb" and known is not None and known[1] != "parquet"

    def opened() -> tuple[Any, Any]:
        if known is None or first != "duckdb":
            connection = duckdb.connect(str(path), read_only=True)
            return connection, connection.table(second)
        connection = duckdb.connect()
        if not texts:
            return connection, connection.read_parquet(str(path))
        # Nothing is guessed: types or separators that one record decides would change all others.
        found = connection.read_csv(
            str(path), header=True, sep="\t" if known[2] == "tsv" else ",", quotechar='"',
            escapechar='"', skiprows=0, all_varchar=True, comment="",
        )  # fmt: skip
        return connection, found

    connection, relation = unquoted(opened, f"{given} must be a table that DuckDB can read")
    return replace(_duck(relation, given), connection=connection, texts=texts)


@dataclass(frozen=True)
class Clean:
    """A column as a double or a code, NULL where it is left out, and what must not be in it.

    ``wrong`` holds, or is NULL, where anything must not; ``faults`` are conditions, each with what
    it is called: missing, NaN, infinite, inexact. Of a category, ``expression`` is the text or
    integer, ``labels`` are those listed, in SQL, with their codes, and all else is ``other``.
    """

    expression: str
    faults: dict[str, str]
    wrong: str = "FALSE"
    labels: tuple[tuple[str, int], ...] = ()
    other: int | None = None


def clean(engine: Engine, wanted: ColumnRequest) -> Clean:
    """As :mod:`mustdp.data` reads it into memory: the same values, and the same is refused."""
    column = str(wanted.column)
    kind, name = engine.kind(column), engine.dialect.name(column)
    called = f"column {quoted(column)} of {engine.where}"
    if isinstance(wanted, Category):
        return _category(engine, wanted, kind, name, called)
    if isinstance(wanted, Day) or not isinstance(wanted, Number):
        raise InvalidParameter(
            f"{called} must be numeric in an engine: a view can count days from a public date"
        )
    if isinstance(engine, DuckTable) and engine.texts:
        kind, name = "double", f"CAST({name} AS DOUBLE)"
    whole = re.fullmatch(_INTEGERS, kind) is not None
    if not whole and kind != "boolean" and re.fullmatch(_FLOATS, kind) is None:
        refuse_type(called, kind, wanted)
    value, policy = f"CAST({name} AS DOUBLE)", wanted.missing or "refuse"
    missing, most, faults = f"{name} IS NULL", double(1.7976931348623157e308), {}
    if whole:
        faults["inexact"] = f"({name} > {LARGEST_SIZE} OR {name} < -{LARGEST_SIZE})"
        wrong = faults["inexact"]
    elif kind == "boolean":
        wrong = f"({name} <> {name})"
    else:
        # NaN is larger than all numbers in both engines, and equal to itself.
        wrong = f"NOT (abs({value}) <= {most})"
        faults["infinite"] = f"({name} IS NOT NULL AND NOT isnan({name}) AND abs({value}) > {most})"
        if policy == "refuse":
            faults["NaN"] = f"({name} IS NOT NULL AND isnan({name}))"
        else:
            wrong = f"({wrong} AND NOT isnan({name}))"
        missing = f"({missing} OR isnan({name}))"
    if policy == "refuse":
        faults["missing"] = f"{name} IS NULL"
    else:
        wrong = f"COALESCE({wrong}, FALSE)"
    filled = "NULL" if isinstance(policy, str) else double(policy)
    return Clean(f"CASE WHEN {missing} THEN {filled} ELSE {value} END", faults, wrong)


def _category(engine: Engine, wanted: Category, kind: str, name: str, called: str) -> Clean:
    """The position in the list; whatever is missing is one of the others."""
    if re.fullmatch(_INTEGERS, kind):
        # Texts of integers, as these are compared faster; other texts are those of none.
        whole = [
            (int(value), code)
            for code, value in enumerate(wanted.values)
            if re.fullmatch("0|-?[1-9][0-9]*", value)
        ]
        if all(abs(value) < 2**63 for value, _ in whole):
            labels = tuple((str(value), code) for value, code in whole)
            return Clean(name, {}, labels=labels, other=wanted.other)
    dialect, text = engine.dialect, name
    if isinstance(engine, DuckTable):
        text = f"CAST({name} AS VARCHAR)"
    elif kind != "string":
        text = f"CAST({name} AS STRING)"
    if re.fullmatch(r"varchar|string|enum\(.*", kind, flags=re.DOTALL):
        text = dialect.stripped(text)
    elif not re.fullmatch(rf"{_INTEGERS}|boolean", kind):
        refuse_type(called, kind, wanted)
    labels = tuple(
        (dialect.octets(dialect.text(value)), code) for code, value in enumerate(wanted.values)
    )
    return Clean(dialect.octets(text), {}, labels=labels, other=wanted.other)
