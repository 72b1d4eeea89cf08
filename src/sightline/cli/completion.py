"""`sightline completion`: let a shell complete our commands and options."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from sightline.cli.options import examples
from sightline.cli.out import write_text


@examples("sightline completion bash", "sightline completion zsh", "sightline completion fish")
@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Write the script that makes SHELL complete `sightline`.

    \b
    bash   eval "$(sightline completion bash)"      in ~/.bashrc
    zsh    eval "$(sightline completion zsh)"       in ~/.zshrc
    fish   sightline completion fish | source       in ~/.config/fish/config.fish
    """
    kind = get_completion_class(shell)
    if kind is None:
        raise click.UsageError(f"click knows no completion for {shell}")
    root = context.find_root()
    write_text([kind(root.command, {}, "sightline", "_SIGHTLINE_COMPLETE").source()])
