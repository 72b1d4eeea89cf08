"""`sightline demo`: the demo app, live or as a picture."""

from __future__ import annotations

import asyncio

import click

from sightline.cli.options import examples, users_option
from sightline.cli.out import tell, write_json, write_text
from sightline.demo import demo_tree
from sightline.slop.protocol.codec import encode
from sightline.slop.protocol.text import format_blocks
from sightline.slop.transports.sockets import Users


@examples("sightline demo --print", "sightline demo --json | sightline tree project --depth 1")
@click.command()
@click.option("--ws", "port", type=click.IntRange(0, 65535), help="Serve a WebSocket at this port.")
@click.option("--unix", "socket", type=click.Path(), help="Serve a Unix socket at this path.")
@click.option("--print", "as_text", is_flag=True, help="Show the state as a model would see it.")
@click.option("--json", "as_json", is_flag=True, help="Show the state as JSON.")
@users_option
def demo(
    *, port: int | None, socket: str | None, as_text: bool, as_json: bool, users: Users
) -> None:
    """Serve the demo app, a small mail and calendar program, until interrupted.

    It can be found by `sightline apps`, and prints where it is. Without --ws and --unix it
    serves a Unix socket at a place of its own choice. A WebSocket asks for a token, which is
    written to stderr; the other commands find it by themselves.
    """
    if as_text and as_json:
        raise click.UsageError("--print and --json are two ways to show one thing: choose")
    if (as_text or as_json) and (port is not None or socket is not None):
        raise click.UsageError("--print and --json show the state; they serve nothing")
    if as_json:
        write_json(encode(demo_tree()))
    elif as_text:
        write_text(format_blocks(demo_tree()))
    else:
        asyncio.run(_serve(port, socket, users))


async def _serve(port: int | None, socket: str | None, users: Users) -> None:
    # Not needed to show the picture, and slower to load than it is to show.
    from sightline.demo.app import demo_app
    from sightline.slop.app.announce import told_to_end

    served = demo_app().serving(port=port, unix=socket or port is None, users=users)
    with told_to_end() as ended:
        async with served as addresses:
            if addresses.token is not None:
                tell(f"token: {addresses.token}")
            write_text(addresses)
            await ended.wait()
