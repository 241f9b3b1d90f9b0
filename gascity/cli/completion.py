"""`city completion`: shell completion scripts."""

import click

from gascity.cli.command import command
from gascity.cli.output import print_stdout


@command(
    examples=(
        'eval "$(city completion bash)"         # in ~/.bashrc',
        'eval "$(city completion zsh)"          # in ~/.zshrc',
        "city completion fish | source          # in ~/.config/fish/config.fish",
    ),
    page="tutorial/index",
)
@click.argument("shell", type=click.Choice(("bash", "zsh", "fish")))
def completion(shell: str) -> int:
    """Print a shell completion script."""
    from click.shell_completion import get_completion_class

    from gascity.cli.main import city

    # The script of click needs `compdef`, which zsh has only after compinit.
    if shell == "zsh":
        print_stdout("(( $+functions[compdef] )) || { autoload -Uz compinit && compinit }")
    kind = get_completion_class(shell)
    assert kind is not None  # click has all three
    print_stdout(*kind(city, {}, "city", "_CITY_COMPLETE").source().rstrip().split("\n"))
    return 0
