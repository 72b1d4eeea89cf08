"""The root command, its lazy subcommands, and the one place where errors become exit codes."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

import click

from sightline._distribution import __version__
from sightline.cli.options import examples
from sightline.cli.out import clean_logs, forget_output, notice, open_missing, write_text
from sightline.errors import SightlineError

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

EXIT_CODES: Final = {
    0: "ok",
    1: "unexpected error",
    2: "usage or invalid input",
    3: "key or authentication",
    4: "unreachable or timed out",
    5: "action failed",
    6: "does not fit the budget",
    7: "approval needed and nobody to ask",
    8: "ledger damaged",
    9: "output not written: the disk is full, or fails",
    130: "interrupted",
}

# What a write fails with that found no room or no disk.
UNWRITABLE: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)

# name → where its click command lives, and the line that `sightline --help` shows for it
COMMANDS: Final = {
    "apps": ("sightline.cli.live:apps", "List the apps that can be seen on this machine."),
    "ask": ("sightline.cli.ask:ask", "Ask a model that sees your apps, once."),
    "bridge": ("sightline.cli.bridge:bridge", "Keep the current state blocks in a file."),
    "chat": ("sightline.cli.chat.main:chat", "Talk to a model that sees your apps."),
    "completion": ("sightline.cli.main:completion", "Let your shell complete sightline."),
    "config": ("sightline.cli.config:config", "Show the settings, and where they come from."),
    "conform": ("sightline.cli.conform:conform", "Try a peer, clause by clause of the protocol."),
    "context": ("sightline.cli.context:context", "Show what was sent to a model, turn by turn."),
    "demo": ("sightline.cli.demo:demo", "Serve the demo app, or show its state."),
    "doctor": ("sightline.cli.doctor:doctor", "Check what works here, and say what to do."),
    "gateway": ("sightline.cli.gateway:gateway", "See why an agent's prompt cache was missed."),
    "inspect": ("sightline.cli.inspect:inspect", "See exactly what the model saw, in a browser."),
    "invoke": ("sightline.cli.live:invoke", "Ask an app to do something."),
    "js": ("sightline.cli.js:js", "Print the provider for web pages, in JavaScript."),
    "ledger": ("sightline.cli.ledger:ledger", "Check, query, copy and move conversations."),
    "mcp": ("sightline.cli.mcp:mcp", "Let agents that take MCP servers use your apps."),
    "models": ("sightline.cli.models:models", "List the models that can be asked now."),
    "query": ("sightline.cli.live:query", "Ask an app for its state, once."),
    "relay": ("sightline.cli.live:relay", "Serve an app at one more WebSocket port."),
    "render": ("sightline.cli.render:render", "Write a prompt as a vendor's request JSON."),
    "slots": ("sightline.cli.slots:slots", "Assemble a prompt from slots within a budget."),
    "strategy": ("sightline.cli.strategy:strategy", "List strategies, or check one on a session."),
    "tail": ("sightline.cli.projection:tail", "Write the state blocks that end a request."),
    "tokens": ("sightline.cli.tokens:tokens", "Count the tokens of a text."),
    "tools": ("sightline.cli.projection:tools", "Write what a model can call, from a tree."),
    "tree": ("sightline.cli.tree:tree", "Check, format, project, diff and patch state trees."),
    "watch": ("sightline.cli.live:watch", "Show an app's state as it changes."),
}


class ReaderLeft(Exception):
    """Whoever reads our output has read enough."""


class LazyGroup(click.Group):
    """A group that imports a command only when it runs or is asked for its own help."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, _, name = COMMANDS[cmd_name][0].partition(":")
        command = getattr(import_module(module), name)
        clean_logs()
        assert isinstance(command, click.Command)  # noqa: S101 - a wrong table entry is a bug
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        # From the table: a shell asks at every Tab, and need not wait for imports.
        found = [
            CompletionItem(name, help=COMMANDS[name][1])
            for name in self.list_commands(ctx)
            if name.startswith(incomplete)
        ]
        return [*found, *click.Command.shell_complete(self, ctx, incomplete)]

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:  # before click makes an exit code of its own of it
            raise ReaderLeft from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, COMMANDS[name][1]) for name in self.list_commands(ctx)])


def _exit_code_table() -> str:
    return "\b\nExit codes:\n" + "\n".join(
        f"{code:>5}  {what}" for code, what in EXIT_CODES.items()
    )


@click.group(
    cls=LazyGroup,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=_exit_code_table(),
)
@click.version_option(__version__, prog_name="sightline")
@click.pass_context
def cli(context: click.Context) -> int | None:
    """Let models see what your apps show now, act with your consent, and remember.

    Without a command it opens the chat.
    """
    if context.invoked_subcommand is not None:
        return None
    chat = cli.get_command(context, "chat")
    assert chat is not None  # noqa: S101 - it is in the table
    code: int = context.invoke(chat)
    return code


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
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    if kind is None:
        raise click.UsageError(f"click knows no completion for {shell}")
    root = context.find_root()
    write_text([kind(root.command, {}, "sightline", "_SIGHTLINE_COMPLETE").source()])


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command line and exit; the entry point of `sightline`."""
    open_missing()
    _forget_relative_folders()
    if any(name.startswith("OTEL_EXPORTER_OTLP_") for name in os.environ):
        from sightline.cli.tracing import send_traces

        send_traces()
    sys.exit(run(argv))


def _forget_relative_folders() -> None:
    """Look for no program in the current directory: a vendor's library starts `uname` unasked."""
    if "PATH" in os.environ:
        folders = os.environ["PATH"].split(os.pathsep)
        os.environ["PATH"] = os.pathsep.join(filter(os.path.isabs, folders))


def run(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    try:
        result = cli.main(args=argv, prog_name="sightline", standalone_mode=False)
    except SightlineError as error:
        _complain(str(error))
        return error.exit_code
    except (click.exceptions.Abort, KeyboardInterrupt):
        return 130
    except click.ClickException as error:
        _complain(_usage_message(error))
        return 2
    except ReaderLeft:
        forget_output()  # not an error
        return 0
    except Exception as error:
        if os.environ.get("SIGHTLINE_DEBUG"):
            raise
        if isinstance(error, OSError) and error.errno in UNWRITABLE and error.filename is None:
            forget_output()
            _complain(f"the output could not be written: {error.strerror}")
            return 9
        _complain(f"unexpected {type(error).__name__}: {error} (SIGHTLINE_DEBUG=1 shows where)")
        return 1
    return result if isinstance(result, int) else 0


def _usage_message(error: click.ClickException) -> str:
    message = error.format_message()
    if isinstance(error, click.UsageError) and error.ctx is not None:
        return f"{message} (see '{error.ctx.command_path} --help')"
    return message


def _complain(message: str) -> None:
    notice(" ".join(message.splitlines()))
