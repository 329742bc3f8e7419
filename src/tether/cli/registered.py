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

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """As ever; but a command that cannot be imported is an error only here, not in the list of all."""
        name, command, rest = super().resolve_command(ctx, args)
        if isinstance(getattr(command, "callback", None), _Broken):
            command.callback()
        return name, command, rest


def _registered() -> dict[str, EntryPoint]:
    """Entry points by name; of several with one name the first that is found."""
    found: dict[str, EntryPoint] = {}
    for point in entry_points(group=GROUP):
        found.setdefault(point.name, point)
    return found


class _Broken:
    """Stands for a command whose package does not import: the others must go on."""

    def __init__(self, point: EntryPoint, reason: Exception) -> None:
        self.message = (
            f"command '{point.name}' must be importable from `{point.value}`; "
            f"{type(reason).__name__}: {reason}. Install or remove the package that registers it."
        )
        self.__name__, self.__doc__ = point.name, f"Cannot be imported from {point.value}."

    def __call__(self) -> None:
        """Says why there is no such command."""
        raise ValueError(self.message)


def _load(point: EntryPoint) -> Any:
    try:
        loaded = point.load()
        command = _made(loaded, point.name)
    # Whatever another package raises while it is imported.
    except Exception as error:
        command = _made(_Broken(point, error), point.name)
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
