"""`sightline relay`: an app at one more WebSocket port."""

from __future__ import annotations

import asyncio
import secrets

import click

from sightline.cli.live import address_argument
from sightline.cli.out import tell, write_text


@click.command(
    epilog="""\b
For an app on a broker, on two cores:
  export SIGHTLINE_PORT_TOKEN=…
  sightline relay nats://broker:4222/todos --port 8765 &
  sightline relay nats://broker:4222/todos --port 8765 &
"""
)
@address_argument
@click.option("--port", type=click.IntRange(0, 65535), required=True, help="0 chooses one.")
@click.option(
    "--port-token", envvar="SIGHTLINE_PORT_TOKEN",
    help="What the port asks for; one is made and written to stderr if there is none.",
)  # fmt: skip
def relay(*, address: str, port: int, port_token: str | None) -> None:
    """Serve the app at ADDR at a WebSocket port of this machine, until interrupted.

    Started several times with one port and one token, each process serves a share of those who
    come: so several cores tell many WebSockets of a change. Of an app on a broker a relay gets
    each change once, however many it serves.
    """
    asyncio.run(_serve(address, port, port_token))


async def _serve(address: str, port: int, port_token: str | None) -> None:
    from sightline.slop.app.announce import told_to_end
    from sightline.slop.hub.address import dial_address
    from sightline.slop.hub.second_port import serve_relay

    token = port_token or secrets.token_urlsafe(32)
    dial = dial_address(address)
    link = await dial()  # who cannot be reached now is an error of whoever typed the address
    try:
        with told_to_end() as ended:
            async with serve_relay(dial, port, token) as served:
                if port_token is None:
                    tell(f"token: {token}")
                write_text([served])
                await ended.wait()
    finally:
        await link.close()
