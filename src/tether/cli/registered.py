"""Commands of other packages: entry points of the group ``tether.commands``.

An entry point is named as the command and refers to a function that typer can read, or to a `typer.Typer`.
It is imported when its command is called for, and for the list of all commands, which should therefore be
quick.
"""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points
from typing import Any

import typer
from typer.core import TyperGroup

GROUP = "tether.commands"


class Commands(TyperGroup):
    """The verbs of Tether, then registered ones by name; a name that is taken stays with who has it."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Names, as the help lists them."""
        own = list(super().list_commands(ctx))
        return [*own, *sorted(set(_registered()) - set(own))]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command; a registered one is imported now."""
        own = super().get_command(ctx, cmd_name)
        if own is not None or cmd_name not in _registered():
            return own
        return _load(_registered()[cmd_name])


def _registered() -> dict[str, EntryPoint]:
    """Entry points by name; of several with one name the first that is found."""
    found: dict[str, EntryPoint] = {}
    for point in entry_points(group=GROUP):
        found.setdefault(point.name, point)
    return found


def _load(point: EntryPoint) -> Any:
    try:
        command = _made(point.load(), point.name)
    # Whatever another package raises while it is imported: the other commands must go on.
    except Exception as error:
        command = _refusal(point, error)
    command.name = point.name
    return command


def _made(loaded: Any, name: str) -> Any:
    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    if isinstance(loaded, typer.Typer):
        # Below another, so that it is shown as the verbs are, without options of its own for completion.
        app.add_typer(loaded, name=name)
        group: Any = typer.main.get_command(app)
        return group.commands[name]
    app.command(name)(loaded)
    return typer.main.get_command(app)


def _refusal(point: EntryPoint, reason: Exception) -> Any:
    """Stands for a command that cannot be imported, and says so when it is called."""
    message = (
        f"the command '{point.name}' must be importable from `{point.value}`; "
        f"{type(reason).__name__}: {reason}. Install or remove the package that registers it."
    )

    def refuse() -> None:
        raise ValueError(message)

    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    anything = {"ignore_unknown_options": True, "allow_extra_args": True}
    app.command(point.name, help=f"Cannot be imported from {point.value}.", context_settings=anything)(refuse)
    return typer.main.get_command(app)
