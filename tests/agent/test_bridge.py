"""The bridge: a whole file or none, and nothing that may be outdated."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from context.projection.requirements import proves
from sightline.agent.bridge import BridgeWriter, is_alive, process_start, read_bridge, run_bridge
from sightline.context.projection.bridge import (
    WINDOW_S,
    BridgeRecord,
    decode_bridge,
    encode_bridge,
    reason_to_drop,
)
from sightline.context.projection.tail import render_tail
from sightline.demo import demo_tree
from sightline.errors import InvalidInput
from sightline.slop.protocol.tree import Node
from sightline.slop.protocol.world import AppState, World

NOW = datetime(2026, 4, 28, 10, 30, tzinfo=UTC)
WORLD = World((AppState("desk", "Desk", tree=demo_tree()),))


def writer(path: Path, **options: object) -> BridgeWriter:
    return BridgeWriter(path, clock=lambda: NOW, **options)  # type: ignore[arg-type]  # few options


def after(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def test_a_record_survives_its_file() -> None:
    record = BridgeRecord("<slop-state>…", NOW, 42, "123", 5.0)
    assert decode_bridge(encode_bridge(record)) == record


@pytest.mark.parametrize(
    "data", [b"", b"{}", b"\xff", encode_bridge(BridgeRecord("", NOW, 1))[:-9]]
)
def test_what_is_no_bridge_file_is_refused(data: bytes) -> None:
    with pytest.raises(InvalidInput, match="not a bridge file"):
        decode_bridge(data)


def test_a_format_of_tomorrow_is_refused() -> None:
    data = encode_bridge(BridgeRecord("", NOW, 1)).replace(b"bridge/1", b"bridge/9")
    with pytest.raises(InvalidInput, match="unknown format"):
        decode_bridge(data)


@proves("CI-2a")
@pytest.mark.parametrize(
    ("age", "alive", "reason"),
    [
        (0, True, None),
        (WINDOW_S, True, None),
        (WINDOW_S + 0.1, True, "stalled"),
        (-WINDOW_S, True, None),
        (-WINDOW_S - 0.1, True, "future"),
        (0, False, "is gone"),
    ],
)
def test_freshness_is_a_matter_of_age_and_life(age: float, alive: bool, reason: str | None) -> None:
    found = reason_to_drop(BridgeRecord("t", NOW, 1), after(age), writer_is_alive=alive)
    assert (found is None) if reason is None else (found is not None and reason in found)


def test_the_narrower_window_counts() -> None:
    record = BridgeRecord("t", NOW, 1, window_s=2)
    assert reason_to_drop(record, after(3), writer_is_alive=True)
    assert reason_to_drop(record, after(1.5), writer_is_alive=True, window_s=1)


@proves("CI-2a")
def test_a_fresh_tail_of_a_living_writer_is_read_and_a_stale_one_is_not(tmp_path: Path) -> None:
    path = tmp_path / "tail.json"
    assert read_bridge(path, NOW).dropped == "there is no such file: no bridge is running"
    with writer(path) as bridge:
        bridge.write(WORLD)
        assert read_bridge(path, after(1)).tail == render_tail(WORLD, NOW, described=True).text
        stale = read_bridge(path, after(11))
        assert (stale.tail, "stalled" in (stale.dropped or "")) == ("", True)
    assert read_bridge(path, NOW).tail == ""


@proves("CI-2a")
def test_a_tail_whose_writer_is_dead_is_dropped(tmp_path: Path) -> None:
    path = tmp_path / "tail.json"
    code = "import os; print(os.getpid())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    writer(path, pid=int(done.stdout)).write(WORLD)
    assert "is gone" in (read_bridge(path, NOW).dropped or "")


def test_a_process_number_that_is_used_again_does_not_vouch(tmp_path: Path) -> None:
    path = tmp_path / "tail.json"
    record = BridgeRecord("t", NOW, os.getpid(), started=f"{process_start(os.getpid())}0")
    path.write_bytes(encode_bridge(record))
    assert "is gone" in (read_bridge(path, NOW).dropped or "")


def test_the_file_is_its_owners_and_leaves_nothing_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "tail.json"
    bridge = writer(path)
    for _ in range(3):
        bridge.write(WORLD)
    assert [file.name for file in tmp_path.iterdir()] == ["tail.json"]
    assert path.stat().st_mode & 0o777 == 0o600
    bridge.close()
    assert list(tmp_path.iterdir()) == []


def test_it_writes_until_the_beat_stops_and_shows_every_world_anew(tmp_path: Path) -> None:
    path = tmp_path / "tail.json"
    worlds = iter([WORLD, World(), WORLD])
    seen: list[str] = []

    def beat() -> bool:
        seen.append(read_bridge(path, NOW).tail)
        return len(seen) < 3

    with writer(path) as bridge:
        run_bridge(bridge, lambda: next(worlds), beat)
    assert seen == [
        render_tail(world, NOW, described=True).text for world in (WORLD, World(), WORLD)
    ]
    assert not path.exists()


@proves("CI-6")
def test_of_a_large_state_it_keeps_what_matters_most(tmp_path: Path) -> None:
    rows = [Node.of(f"row-{n}", "item", meta={"salience": n / 5_000}) for n in range(5_000)]
    large = World((AppState("grid", "Grid", tree=Node.of("grid", "root", children=rows)),))
    path = tmp_path / "tail"
    sizes = []
    for budget in (200, 4_000):
        bridge = writer(path, budget=budget)
        bridge.write(large)
        tail = read_bridge(path, after(1)).tail
        assert "row-4999" in tail
        assert "row-1 " not in tail
        sizes.append(len(tail) / 4)
    assert sizes[0] <= 200 < sizes[1] <= 4_000


def test_a_root_that_is_too_large_is_bare_and_keeps_nobody_out(tmp_path: Path) -> None:
    wall = Node.of("wall", "root", properties={"text": "x" * 250_000})
    world = World((AppState("wall", "Wall", tree=wall), *WORLD.apps))
    bridge = writer(tmp_path / "tail", budget=700)
    bridge.write(world)
    tail = read_bridge(bridge.path, after(1)).tail
    assert len(tail) / 4 <= 700
    assert "too large to show here" in tail
    assert "### Desk (desk)" in tail


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"nowhere/tail.json: No such file or directory"):
        writer(tmp_path / "nowhere" / "tail.json").write(WORLD)
    (tmp_path / "dir").mkdir()
    with pytest.raises(InvalidInput, match="Is a directory"):
        writer(tmp_path / "dir").write(WORLD)
    assert [file.name for file in tmp_path.iterdir()] == ["dir"]


def test_what_cannot_be_read_is_dropped_with_a_reason(tmp_path: Path) -> None:
    assert "directory" in (read_bridge(tmp_path, NOW).dropped or "")
    (tmp_path / "x").write_text("?")
    assert "not a bridge file" in (read_bridge(tmp_path / "x", NOW).dropped or "")


def test_life_is_asked_of_the_system() -> None:
    assert is_alive(os.getpid())
    assert not any(map(is_alive, (0, -1, 2**70)))
    assert process_start(2**22 + 1) == ""


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs Linux's /proc")
def test_a_writer_that_ended_and_waits_for_its_parent_is_not_alive() -> None:
    child = subprocess.Popen(["sleep", "600"])
    assert is_alive(child.pid)
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # ended, and still to be fetched
    assert not is_alive(child.pid)
    child.wait()
