"""How options are read: typed readers, shared bundles of options, and refusals that name the
option.
"""

from __future__ import annotations

import ast
import inspect
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from difflib import get_close_matches
from functools import partial
from importlib import import_module, resources
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_args, get_origin, get_type_hints

import typer

from mustdp.errors import InvalidParameter
from mustdp.limits import LARGEST_SIZE
from mustdp.numerics.formatting import as_stated

# Readers: text from the command line becomes checked values. Every refusal has the same form, the
# option, what is allowed and the value.


#: Characters of a value that a message repeats, so that it stays one line.
_LONGEST = 40


def read_integer(option: str, text: str, low: int = 1, high: int = LARGEST_SIZE) -> int:
    """Read an integer in [low, high]; ``1.5``, ``1e3`` and ``nan`` are refused."""
    from mustdp.numerics import checks

    try:
        value: object = int(text) if len(text) <= _LONGEST else clipped(text)
    except ValueError:
        value = clipped(text)
    return checks.integer(option, value, low, high)


def read_number(
    option: str,
    text: str,
    *,
    above: float | None = None,
    at_least: float | None = None,
    below: float | None = None,
    at_most: float | None = None,
) -> float:
    """Read a finite number; ``nan`` and ``inf`` are refused."""
    from mustdp.numerics import checks

    try:
        value: object = float(text)
    except ValueError:
        value = clipped(text)
    return checks.real(option, value, above=above, at_least=at_least, below=below, at_most=at_most)


def read_within(option: str, text: str, limits: Mapping[str, float]) -> float:
    """Read a number inside one of the ranges of :mod:`mustdp.limits`."""
    return read_number(option, text, **limits)


def read_several(option: str, text: str, limits: Mapping[str, float]) -> tuple[float, ...]:
    """Read numbers that commas part."""
    return tuple(read_within(option, part, limits) for part in text.split(","))


#: Readers of seeds, of probabilities with and without their ends, and of learning rates and bounds.
read_natural = partial(read_integer, low=0)
read_rate = partial(read_number, at_least=0, at_most=1)
read_inner_rate = partial(read_number, above=0, below=1)
read_positive = partial(read_number, above=0)
read_scale = partial(read_number, above=0, at_most=1e9)


def one_of(option: str, text: str, allowed: Sequence[str]) -> str:
    """Return ``text`` if it is one of the ``allowed`` words; a near miss is pointed out.

    >>> one_of("--scheme", "mustow", ("wor", "must-ow"))
    Traceback (most recent call last):
    mustdp.errors.InvalidParameter: --scheme must be one of wor, must-ow, got 'mustow' (did you mean must-ow?)
    """  # noqa: E501
    if text in allowed:
        return text
    near = get_close_matches(text.lower(), allowed, n=1)
    hint = f" (did you mean {near[0]}?)" if near else ""
    raise InvalidParameter.refusing(
        option, f"must be one of {', '.join(allowed)}", f"{clipped(text)!r}{hint}"
    )


def clipped(text: str) -> str:
    """Shorten a value that would not fit on one line."""
    return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."


# Typed options: typer hands their text to a reader, so that commands get values. Options are
# declared by the lines that the help has of them, and each by its reader:
#
#     accounting = Panel("Accounting", "--steps K  Number of applications, each with a fresh draw.")
#     StepsOption = Annotated[int | None, accounting("--steps", read_integer)]
#
# A reader takes the option's name and the text, and raises InvalidParameter for what it refuses.


Reader = Callable[[str, str], Any]


class RefusedOption(Exception):
    """Takes a refusal past typer, which puts words of its own in place of a ValueError."""

    def __init__(self, problem: InvalidParameter) -> None:
        super().__init__(str(problem))
        self.problem = problem


class Panel:
    """Options that the help shows together, by the lines that it has of them.

    A line begins with the option and what it takes; two spaces part it from what it says, which
    may go on in lines that are indented. An option that takes nothing is a flag.
    """

    def __init__(self, title: str | None, lines: str) -> None:
        self._title = title
        self._lines: dict[str, tuple[str, str]] = {}
        name = ""
        for line in inspect.cleandoc(lines).splitlines():
            if line.startswith("-"):
                option, _, line = line.partition("  ")
                name, _, takes = option.partition(" ")
                self._lines[name] = takes, ""
            takes, text = self._lines[name]
            self._lines[name] = takes, f"{text} {line.strip()}".strip()

    def __call__(self, name: str, read: Reader | None = None) -> Any:
        """One of the options, whose text goes through ``read``; without a reader it stays text."""
        takes, text = self._lines[name]
        return typer.Option(
            name,
            parser=parser(name, read) if read else None,
            metavar=takes or None,
            help=text,
            rich_help_panel=self._title,
            autocompletion=_completion(read),
        )


def _completion(read: Reader | None) -> Callable[[str], list[str]] | None:
    """What a shell offers for an option that takes one of a few words."""
    words = getattr(read, "keywords", {}).get("allowed")
    if words is None:
        return None
    # typer hands over what was typed so far under this name.
    return lambda incomplete: [word for word in words if word.startswith(incomplete)]


def complete_help(text: str) -> str:
    """Help in which the lists of statistics are filled in; they are read when it is shown.

    >>> complete_help("Coverage of the interval.")
    'Coverage of the interval.'
    """
    for runner in ("for_release", "for_bootstrap"):
        if f"{{{runner}}}" in text:
            text = text.replace(f"{{{runner}}}", ", ".join(_statistics(runner)))
    return text


def _statistics(runner: str) -> Iterator[str]:
    """What the registered statistics say of themselves, from their source: numpy is not loaded.

    A test compares it with the registry itself.
    """
    classes: dict[str, ast.ClassDef] = {}
    for path in resources.files("mustdp.estimation.statistics").iterdir():
        if path.name.endswith(".py"):
            body = ast.parse(path.read_text(encoding="utf-8")).body
            classes |= {one.name: one for one in body if isinstance(one, ast.ClassDef)}

    def stated(one: ast.ClassDef, attribute: str) -> Any:
        for line in one.body:
            if isinstance(line, ast.Assign | ast.AnnAssign) and line.value is not None:
                targets = line.targets if isinstance(line, ast.Assign) else [line.target]
                if attribute in map(ast.unparse, targets):
                    return ast.literal_eval(line.value)
        parents = [classes[name] for name in map(ast.unparse, one.bases) if name in classes]
        return next((stated(parent, attribute) for parent in parents), None)

    marked = [one for one in classes.values() if "register" in map(ast.unparse, one.decorator_list)]
    for one in sorted(marked, key=lambda one: str(stated(one, "name"))):
        usage = stated(one, "usage")
        if stated(one, runner) and usage is not None:
            yield usage or stated(one, "name")


def parser(name: str, read: Reader) -> Callable[[Any], Any]:
    """What typer calls with the text that was given for ``name``, or with a default."""

    def parse(given: Any) -> Any:
        if type(given) is not str:
            return given
        try:
            return read(name, given)
        except InvalidParameter as problem:
            raise RefusedOption(problem) from None

    return parse


def word_of(choices: Sequence[str]) -> Reader:
    """A reader of one of these words."""
    return partial(one_of, allowed=tuple(choices))


def word_from(module: str, choices: str) -> Reader:
    """A reader of one of the words that a module lists, which is loaded when one is read."""

    def read(name: str, text: str) -> str:
        return one_of(name, text, tuple(getattr(import_module(module), choices)))

    return read


def as_typed(value: object) -> str:
    """A value as it could be typed again, for messages.

    >>> as_typed(0.4), as_typed(20), as_typed((("wor", 5), ("wr", 3)))
    ('0.4', '20', 'wor:5,wr:3')
    """
    if isinstance(value, float):
        return as_stated(value)
    if isinstance(value, tuple):
        parts = (part if isinstance(part, tuple) else (part,) for part in value)
        return clipped(",".join(":".join(map(as_typed, part)) for part in parts))
    return clipped(str(value))


def exactly_one(options: Mapping[str, object]) -> None:
    """Refuse options that exclude each other, or none of them."""
    given = {name: value for name, value in options.items() if value is not None}
    if not given:
        raise InvalidParameter(f"{' or '.join(options)} is missing: give exactly one")
    if len(given) > 1:
        values = " and ".join(f"{name} {as_typed(value)}" for name, value in given.items())
        raise InvalidParameter(
            f"{' and '.join(given)} exclude each other: give exactly one, got {values}"
        )


def writable_file(name: str, out: str) -> Path:
    """The file to write, refused before any work is done if it cannot be."""
    target = Path(out)
    folder = target.parent
    allowed = folder.is_dir() and os.access(folder, os.W_OK | os.X_OK)
    if target.is_dir() or not target.name or not allowed:
        raise InvalidParameter.refusing(
            name, "must be a file in a folder that exists and can be written to", repr(clipped(out))
        )
    return target


# Bundles: options that several commands share, written once. A bundle is a frozen dataclass whose
# fields are annotated options, or bundles. A command that takes a bundle as a parameter is turned
# by :func:`with_bundles` into the flat function that typer expects:
#
#     @with_bundles
#     def amplify(scheme: SchemeOptions, noise: NoiseOptions, epsilon: ...) -> Answer: ...
#
# An option whose type is not a list is refused when it is given twice: typer alone would drop all
# values but the last.


R = TypeVar("R")


JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]


def with_bundles(command: Callable[..., R]) -> Callable[..., R]:
    """Expand every parameter of ``command`` that is a bundle into the bundle's own options.

    A command that has no ``--json`` itself is given one, and its answer is marked accordingly.
    """
    hints = get_type_hints(command, include_extras=True)
    parameters = inspect.signature(command).parameters
    bundles = {name: hints[name] for name in parameters if is_dataclass(hints[name])}
    flat = []
    for name, parameter in parameters.items():
        if name in bundles:
            flat += _expanded(bundles[name])
        else:
            flat.append(_parameter(name, parameter.default, hints[name]))
    marks_json = "json" not in parameters
    if marks_json:
        flat.append(_parameter("json", False, JsonOption))
    single = {one.name: _flag(one.annotation) for one in flat if _is_single(one.annotation)}

    def flattened(**values: Any) -> R:
        values = _reduced(values, single)
        as_json = values.pop("json") if marks_json else False
        for name, bundle in bundles.items():
            values[f"{name} options"] = _filled(bundle, values)
        # Renamed in a second pass: a bundle may be called like one of its own fields.
        answer = command(**{name.removesuffix(" options"): one for name, one in values.items()})
        return replace(answer, as_json=True) if as_json else answer  # type: ignore[type-var]

    listed = [_several(one) if one.name in single else one for one in flat]
    flattened.__name__, flattened.__doc__ = command.__name__, command.__doc__
    flattened.__module__ = command.__module__
    flattened.__annotations__ = {one.name: one.annotation for one in listed}
    flattened.__signature__ = inspect.Signature(listed)  # type: ignore[attr-defined]
    return flattened


def _expanded(bundle: Any) -> list[inspect.Parameter]:
    """The options of a bundle, and of bundles in it."""
    found, hints = [], get_type_hints(bundle, include_extras=True)
    for field in fields(bundle):
        hint = hints[field.name]
        own = [_parameter(field.name, field.default, hint)]
        found += _expanded(hint) if is_dataclass(hint) else own
    return found


def _filled(bundle: Any, values: dict[str, Any]) -> Any:
    """A bundle with its values, which are taken out of those given."""
    hints = get_type_hints(bundle)
    own = {
        field.name: _filled(hints[field.name], values)
        if is_dataclass(hints[field.name])
        else values.pop(field.name)
        for field in fields(bundle)
    }
    return bundle(**own)


def _parameter(name: str, default: Any, annotation: Any) -> inspect.Parameter:
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation
    )


def _flag(annotation: Any) -> str:
    """The name under which an option is typed; empty for an argument."""
    info = get_args(annotation)[1]
    # Without a default before it, typer keeps the first name in the default's place.
    declared = (info.default, *(info.param_decls or ()))
    return next((name for name in declared if isinstance(name, str)), "")


def _is_single(annotation: Any) -> bool:
    """Whether this is an option with a value, to be given once."""
    kind = get_args(annotation)[0]
    listed = any(get_origin(part) is list for part in (kind, *get_args(kind)))
    return kind is not bool and not listed and _flag(annotation).startswith("-")


def _several(parameter: inspect.Parameter) -> inspect.Parameter:
    """The same option, taken as often as it is given, so that a second value is seen."""
    default = None if parameter.default is None else [parameter.default]
    info = get_args(parameter.annotation)[1]
    return parameter.replace(default=default, annotation=Annotated[list[str] | None, info])


def _reduced(values: Mapping[str, Any], single: Mapping[str, str]) -> dict[str, Any]:
    """Every option that may be given once with its only value."""
    found = dict(values)
    for name, flag in single.items():
        given = found[name] or [None]
        if len(given) > 1:
            shown = clipped(" and ".join(map(as_typed, given)))
            raise InvalidParameter.refusing(flag, "must be given once", shown)
        found[name] = given[0]
    return found
