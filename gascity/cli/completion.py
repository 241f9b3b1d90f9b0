"""`city completion`: the script that lets a shell complete commands and names."""

import click

from gascity.cli.output import say


@click.command()
@click.argument("shell", type=click.Choice(("bash", "zsh", "fish")))
def completion(shell: str) -> int:
    """Print a shell's completion script.

    \b
    bash:  eval "$(city completion bash)"           in ~/.bashrc
    zsh:   eval "$(city completion zsh)"            in ~/.zshrc
    fish:  city completion fish | source            in ~/.config/fish/config.fish
    """
    from click.shell_completion import get_completion_class

    from gascity.cli import city

    kind = get_completion_class(shell)
    assert kind is not None  # click has all three
    say(kind(city, {}, "city", "_CITY_COMPLETE").source().rstrip())
    return 0
