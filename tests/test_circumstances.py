"""The suite passes for everyone and cannot hang: whoever starts it, and whatever a test leaves."""

from __future__ import annotations

import gc
import os
import socket
import subprocess
import sys
from pathlib import Path

from support.vendors.answers import says
from support.vendors.server import Vendor

TESTS = Path(__file__).parent


def nested(where: Path, *arguments: str, before: str = "pass") -> subprocess.CompletedProcess[str]:
    """Run tests of our own in a process that was started in a certain way."""
    start = f"import os, signal, sys; {before}; os.execv(sys.executable, sys.argv[1:])"
    command = [sys.executable, "-m", "pytest", "-n0", "-p", "conftest", *arguments]
    return subprocess.run(
        [sys.executable, "-c", start, *command], cwd=where, capture_output=True, text=True,
        timeout=250, check=False, env={**os.environ, "PYTHONPATH": str(TESTS)},
    )  # fmt: skip


def test_an_ignored_interrupt_a_narrow_mask_and_a_foreign_locale_change_nothing(
    tmp_path: Path,
) -> None:
    # The child sleeps again and again: a signal just before a sleep begins is seen behind it.
    (tmp_path / "test_it.py").write_text(
        "import os, signal, subprocess, sys\n"
        "def test_it(tmp_path):\n"
        "    code = 'import time; print(1, flush=True)\\nwhile True: time.sleep(0.1)'\n"
        "    child = subprocess.Popen([sys.executable, '-c', code], stdout=subprocess.PIPE,\n"
        "                             stderr=subprocess.DEVNULL)\n"
        "    with child:\n"
        "        assert child.stdout.readline() == b'1\\n'\n"
        "        child.send_signal(signal.SIGINT)\n"
        "        assert child.wait() != 0\n"
        "    (tmp_path / 'made').mkdir()\n"
        "    assert (tmp_path / 'made').stat().st_mode & 0o777 == 0o755\n"
        "    assert not {'SIGHTLINE_MODEL', 'WORK_API_KEY', 'LANG'} & set(os.environ)\n",
        encoding="utf-8",
    )
    before = (
        "signal.signal(signal.SIGINT, signal.SIG_IGN); os.umask(0o077); "
        "os.environ.update(SIGHTLINE_MODEL='x', WORK_API_KEY='y', LANG='tr_TR.ISO-8859-9')"
    )
    done = nested(tmp_path, before=before)
    assert done.returncode == 0, done.stdout + done.stderr


def test_what_a_test_starts_ends_with_it_and_a_test_that_hangs_ends(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(
        "import pathlib, subprocess, sys\n"
        "def start(name):\n"
        "    child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'],\n"
        "                             start_new_session=True)\n"
        "    pathlib.Path(name).write_text(str(child.pid))\n"
        "    return child\n"
        "def test_one():\n"
        "    start('one').returncode = 0  # so that nobody complains\n"
        "def test_two():\n"
        "    start('two').wait()\n"
        "def test_three():\n"
        "    assert not pathlib.Path('/proc', pathlib.Path('one').read_text()).exists()\n"
        "    assert not pathlib.Path('/proc', pathlib.Path('two').read_text()).exists()\n",
        encoding="utf-8",
    )
    done = nested(tmp_path, "--timeout", "2")
    assert "1 failed, 2 passed" in done.stdout, done.stdout + done.stderr
    assert "Timeout (>2.0s)" in done.stdout


def test_a_vendor_that_ends_leaves_nobody_who_has_only_just_come() -> None:
    """What is left unclosed would be another test's failure, whenever it is collected."""
    for _ in range(20):
        with Vendor(says("Hello.")) as vendor:
            socket.create_connection(("127.0.0.1", vendor.port)).close()
    gc.collect()
