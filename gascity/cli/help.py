"""`city help`: the help of any command."""

import click

from gascity.cli.command import command
from gascity.cli.output import print_stdout


def _complete(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """Complete the next word of a command."""
    group, context = ctx.find_root().command, ctx.find_root()
    for word in ctx.params.get("words") or ():
        if isinstance(group, click.Group):
            group = group.get_command(context, word) or group
    known = group.list_commands(context) if isinstance(group, click.Group) else []
    return [name for name in known if name.startswith(incomplete)]


@command("help", examples=("city help sling", "city help agent list"), page="reference/commands")
@click.argument("words", nargs=-1, metavar="[COMMAND]...", shell_complete=_complete)
@click.pass_context
def show_help(ctx: click.Context, words: tuple[str, ...]) -> int:
    """Show the help of a command."""
    context = ctx.find_root()
    group: click.Command = context.command
    rest = list(words)
    while rest and isinstance(group, click.Group):
        # Raises UsageError, with similar names, for a command that does not exist.
        name, found, rest = group.resolve_command(context, rest)
        assert found is not None
        context = click.Context(found, parent=context, info_name=name)
        group = found
    if rest:
        raise click.UsageError(f"`{context.command_path}` has no commands", context)
    print_stdout(*group.get_help(context).split("\n"))
    return 0
