"""Names for publication: of columns and groups, a title, footnotes and words about methods.

A codebook is a small file in YAML, of which every part may be left out:

    title: Working hours in Exampleland
    columns: {hours: Hours worked per week}
    groups:
      sex: {1: Men, 2: Women}
    footnotes: [Persons aged 15 and over.]
    methods: One release of the labour force survey.

Names are put in after everything was computed. A result with other names is for reading; contrasts
are made before.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from mustdp.errors import InvalidParameter
from mustdp.estimation.contrasts import Contrast
from mustdp.estimation.result import ReleasedEstimate, ReleaseResult
from mustdp.estimation.tables import Groupings
from mustdp.extras import required

_PARTS = ("title", "columns", "groups", "footnotes", "methods")


@dataclass(frozen=True)
class Codebook:
    """Names of columns and of their groups, and what is said around a table.

    Parameters
    ----------
    columns : mapping
        Names of columns.
    groups : mapping
        Names of groups, by column.
    title : str, default=""
        The title of a page.
    footnotes : sequence of str, default=()
        Sentences below the tables.
    methods : str, default=""
        A paragraph about how the numbers were made; empty for the usual one.

    Examples
    --------
    >>> import mustdp as md
    >>> md.types.Codebook(groups={"sex": {"1": "Men"}}).group("sex", "1")
    'Men'
    """

    columns: Mapping[str, str] = field(default_factory=dict)
    groups: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    title: str = ""
    footnotes: Sequence[str] = ()
    methods: str = ""

    def __post_init__(self) -> None:
        texts = isinstance(self.title, str) and isinstance(self.methods, str)
        notes = (self.footnotes,) if isinstance(self.footnotes, str) else tuple(self.footnotes)
        maps = isinstance(self.columns, Mapping) and isinstance(self.groups, Mapping)
        if not (texts and maps and all(isinstance(one, Mapping) for one in self.groups.values())):
            raise InvalidParameter(
                "labels must have names by column under columns, names by group by column under "
                "groups, and texts for title, footnotes and methods"
            )
        object.__setattr__(self, "footnotes", tuple(map(str, notes)))
        object.__setattr__(self, "columns", {str(k): str(x) for k, x in self.columns.items()})
        groups = {
            str(column): {str(k): str(x) for k, x in own.items()}
            for column, own in self.groups.items()
        }
        object.__setattr__(self, "groups", groups)

    @classmethod
    def read(cls, path: str | Path) -> Codebook:
        """The codebook in a file.

        Parameters
        ----------
        path : str or path
            A file in YAML.

        Returns
        -------
        Codebook
            What is in it.
        """
        yaml = required("yaml", "a codebook of labels")
        try:
            found = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, yaml.YAMLError):
            raise InvalidParameter.refusing(
                "labels", "must be a file in YAML that can be read", repr(str(path))
            ) from None
        if not isinstance(found, Mapping) or not {*found} <= {*_PARTS}:
            raise InvalidParameter.refusing(
                "labels", f"must have no other parts than {', '.join(_PARTS)}", repr(str(path))
            )
        return cls(**found)

    def column(self, name: str) -> str:
        """The name of a column.

        Parameters
        ----------
        name : str
            What the data call it.

        Returns
        -------
        str
            Itself where it has no other.
        """
        return self.columns.get(name, name)

    def group(self, column: str, name: str) -> str:
        """The name of a group.

        Parameters
        ----------
        column : str
            Its column.
        name : str
            What the data call it.

        Returns
        -------
        str
            Itself where it has no other.
        """
        return self.groups.get(column, {}).get(name, name)

    def labelled(self, result: ReleaseResult) -> ReleaseResult:
        """A result for reading, with these names.

        Parameters
        ----------
        result : ReleaseResult
            A result.

        Returns
        -------
        ReleaseResult
            The same numbers.
        """
        if not (self.columns or self.groups):
            return result
        estimates = tuple(map(self._named, result.estimates))
        return replace(result, estimates=estimates)

    def labelled_contrasts(self, found: Iterable[Contrast]) -> tuple[Contrast, ...]:
        """Comparisons for reading, with these names.

        Parameters
        ----------
        found : iterable of Contrast
            Comparisons.

        Returns
        -------
        tuple of Contrast
            The same numbers.
        """
        return tuple(
            replace(one, label=self._said(one.label), description=self._said(one.description))
            for one in found
        )

    def _named(self, one: ReleasedEstimate) -> ReleasedEstimate:
        columns = [self.column(name) for name in (one.column or "").split(", ") if name]
        groups = tuple(
            (self.column(column), self.group(column, name)) for column, name in one.groups
        )
        group = one.group
        if one.groups:
            group = ", ".join(name for _, name in groups)
        cell = one.cell
        if cell is not None and one.column is not None and ", " not in one.column:
            cell = self.group(one.column, cell)
        column = ", ".join(columns) or None
        label = f"{one.statistic} {column}" if column else one.statistic
        label = f"{label}: {cell}" if cell else label
        where = " and ".join(f"{column} is {name}" for column, name in groups)
        where = f" where {where}" if where else one.where
        return replace(
            one,
            label=f"{label} ({group})" if group is not None else label,
            column=column,
            group=group,
            groups=groups,
            cell=cell,
            where=where,
            description=self._said(one.description.removesuffix(one.where)) + where,
        )

    def _said(self, text: str) -> str:
        """A text with the names of columns and groups put in, whole words alone."""
        names = {**self.columns}
        for own in self.groups.values():
            names |= own
        words = text.split(" ")
        for k, word in enumerate(words):
            bare = word.strip(",:;()")
            if bare in names:
                words[k] = word.replace(bare, names[bare])
        return " ".join(words)


def check_contrasts(
    groupings: Groupings | None, pairs: Mapping[str, Sequence[tuple[str, str]]]
) -> None:
    """Refuse comparisons of groups that there are not, or that overlap in part."""
    if groupings is None:
        raise InvalidParameter("groups must be given for comparisons of them")
    for kind, several in pairs.items():
        for pair in several:
            for group in pair:
                if group not in groupings.labels:
                    known = ", ".join(sorted(groupings.labels, key=len)[:12])  # margins first
                    known += " and others" if len(groupings.labels) > 12 else ""
                    raise InvalidParameter.refusing(
                        kind, f"must be of two groups among {known}", repr(group)
                    )
            places = [groupings.labels.index(group) for group in pair]
            if groupings.overlap(places[0], places[1]) in ("same", "crossed"):
                raise InvalidParameter.refusing(
                    kind, "must be of two groups of which none overlaps the other in part",
                    repr(pair),
                )  # fmt: skip
