"""The directive ``command-reference``: commands and options, as the program itself has them."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from typing import Any

import typer
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from mustdp.cli.main import app as commands
from mustdp.cli.parameters import complete_help

#: Options without a panel of their own.
_OTHERS = "Options"


class CommandReference(SphinxDirective):
    """A section for ``mustdp`` and for every command."""

    def run(self) -> list[nodes.Node]:
        """Sections for the page."""
        group: Any = typer.main.get_command(commands)
        every = [("mustdp", group)]
        every += [(f"mustdp {name}", command) for name, command in group.commands.items()]
        return [_section(name, command) for name, command in every]


def _section(name: str, command: Any) -> nodes.section:
    section = nodes.section(ids=[nodes.make_id(name)], names=[name])
    section += nodes.title(text=name)
    context = command.make_context(name, [], resilient_parsing=True)
    usage = " ".join([name, *command.collect_usage_pieces(context)])
    section += nodes.literal_block(text=usage, language="none")
    for paragraph in (command.help or "").split("\n\n"):
        section += _paragraph(paragraph)
    shown = [one for one in command.params if not getattr(one, "hidden", False)]
    for panel, options in _panels(shown):
        section += nodes.rubric(text=panel)
        listed = nodes.definition_list()
        listed += [_option(one) for one in options]
        section += listed
    if command.epilog:
        section += nodes.paragraph(text=command.epilog)
    return section


def _paragraph(text: str) -> nodes.Element:
    example, _, line = text.partition("Example: ")
    if line and not example:
        return nodes.literal_block(text=line, language="none")
    return nodes.paragraph(text=text)


def _panels(options: Iterable[Any]) -> Iterable[tuple[str, Iterable[Any]]]:
    """Options by panel, panels in the order of their first option, those without one last."""
    options = list(options)
    names = [_panel(one) for one in options]
    order = [name for name in dict.fromkeys(names) if name != _OTHERS]
    order.append(_OTHERS)
    return groupby(sorted(options, key=lambda one: order.index(_panel(one))), _panel)


def _panel(option: Any) -> str:
    if option.param_type_name == "argument":
        return "Arguments"
    return getattr(option, "rich_help_panel", None) or _OTHERS


def _option(option: Any) -> nodes.definition_list_item:
    argument = option.param_type_name == "argument"
    names = [option.metavar or option.name.upper()] if argument else option.opts
    term = nodes.term()
    for place, name in enumerate([*names, *option.secondary_opts]):
        flag = getattr(option, "is_flag", False) or argument
        text = name if flag or not option.metavar else f"{name} {option.metavar}"
        term += [nodes.Text(", ")] if place else []
        term += nodes.literal(text=text)
    told = complete_help(option.help or "")
    if not argument and option.show_default and option.default not in (None, False, [], ()):
        default = option.default
        value = default[0] if isinstance(default, list | tuple) and len(default) == 1 else default
        told += f" Default: {value}."
    return nodes.definition_list_item("", term, nodes.definition("", nodes.paragraph(text=told)))


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    app.add_directive("command-reference", CommandReference)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
