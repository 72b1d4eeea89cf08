"""`sightline demo` serves a live app that the other commands find and use."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sightline.context.projection.bridge import decode_bridge
from support.shell import PROGRAM, Run
from support.wire import PATIENCE_S


@contextmanager
def demo(
    directory: Path, *options: str, ending: signal.Signals = signal.SIGINT, code: int = 130
) -> Iterator[list[str]]:
    """Run the demo while the block runs; gives the addresses that it printed."""
    process = subprocess.Popen([PROGRAM, "demo", *options], stdout=subprocess.PIPE, cwd=directory)
    assert process.stdout is not None
    try:
        count = len(options) // 2 or 1
        yield [process.stdout.readline().decode().strip() for _ in range(count)]
    finally:
        process.send_signal(ending)
        process.communicate(timeout=30)
    assert process.returncode == code
    assert not (directory / "providers" / "desk.json").exists()


@pytest.fixture(autouse=True)
def providers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Look for apps, and announce them, in a place of the test's own."""
    monkeypatch.setenv("SLOP_PROVIDERS", str(tmp_path / "providers"))


def test_it_is_found_by_name_and_used_from_the_shell(tmp_path: Path, sightline: Run) -> None:
    with demo(tmp_path) as (unix,):
        assert unix.startswith("unix:/")
        assert b"desk" in sightline("apps").stdout
        params = '{"title": "Call", "start": "15:00"}'
        done = sightline("invoke", "desk", "/calendar", "add_event", "--params", params)
        assert done.returncode == 0, done.stderr
        shown = sightline("query", unix, "/calendar")
        assert [child["id"] for child in json.loads(shown.stdout)["children"]] == [
            "evt-7", "evt-9", "evt-8",
        ]  # fmt: skip


def test_a_bridge_shows_it_to_other_agents(tmp_path: Path, sightline: Run) -> None:
    with demo(tmp_path):
        done = sightline("bridge", "--file", "tail", "--once", "--pid", str(os.getpid()))
        assert done.returncode == 0, done.stderr
        shown = sightline("bridge", "--file", "tail", "--read").stdout.decode()
        assert "### Desk (desk)\n[root] desk: Desk" in shown


def written(path: Path) -> str:
    return decode_bridge(path.read_bytes()).tail if path.exists() else ""


def test_a_bridge_follows_it_until_it_is_stopped(tmp_path: Path) -> None:
    with demo(tmp_path):
        following = subprocess.Popen(
            [PROGRAM, "bridge", "--file", "tail", "--window", "0.3"], cwd=tmp_path
        )
        try:
            # Whether it is fresh depends on how busy the machine is; what it says does not.
            while "[root] desk" not in written(tmp_path / "tail"):
                with pytest.raises(subprocess.TimeoutExpired):
                    following.wait(timeout=0.05)
        finally:
            following.terminate()
            assert following.wait(timeout=PATIENCE_S) == 0
    assert not (tmp_path / "tail").exists()


def test_it_leaves_nothing_behind_when_it_is_ended(tmp_path: Path) -> None:
    with demo(tmp_path, ending=signal.SIGTERM, code=0) as [address]:
        assert (tmp_path / "providers" / "desk.json").exists()
    assert not Path(address.removeprefix("unix:")).exists()


def test_it_serves_where_it_is_told(tmp_path: Path) -> None:
    own = tmp_path / "run" / "desk.sock"
    with demo(tmp_path, "--unix", str(own)) as [address]:
        assert address == f"unix:{own}"


def test_its_port_asks_for_a_token_that_the_other_commands_find(
    tmp_path: Path, sightline: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    with demo(tmp_path, "--ws", "0") as [ws]:
        assert sightline("query", ws, "--depth", "0").returncode == 0
        assert sightline("query", "desk", "--depth", "0").returncode == 0
        assert b"token" not in sightline("apps", "--json").stdout
        monkeypatch.setenv("SLOP_PROVIDERS", str(tmp_path / "of-another-user"))
        refused = sightline("query", ws, "--depth", "0")
        assert (refused.returncode, b"401" in refused.stderr) == (3, True)


def test_it_does_not_serve_and_show_at_once(sightline: Run) -> None:
    assert sightline("demo", "--print", "--ws", "0").returncode == 2
    assert sightline("demo", "--print", "--json").returncode == 2
