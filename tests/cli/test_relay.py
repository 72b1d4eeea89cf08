"""`sightline relay` serves an app at a port of its own until it is told to end."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from sightline.demo import demo_tree
from support.live import LiveApp, announced_app
from support.shell import PROGRAM


def test_an_app_is_asked_through_its_second_port(tmp_path: Path) -> None:
    environment = {**os.environ, "SLOP_PROVIDERS": str(tmp_path)}
    with announced_app(tmp_path, LiveApp(demo_tree(), app_id="demo")):
        command = [PROGRAM, "relay", "demo", "--port", "0"]
        with subprocess.Popen(
            command, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        ) as relay:
            assert relay.stdout is not None
            assert relay.stderr is not None
            token = relay.stderr.readline().split()[1]
            address = relay.stdout.readline().strip()
            asked = [PROGRAM, "query", address, "/inbox", "--token"]
            answers = [
                subprocess.run(
                    [*asked, given], env=environment, capture_output=True, text=True, check=False
                )
                for given in (token, "guessed")
            ]
            relay.terminate()
            assert relay.wait(60) == 0
    known, stranger = answers
    assert (known.returncode, "Inbox" in known.stdout) == (0, True), known.stderr
    assert stranger.returncode != 0
    assert stranger.stdout == ""
