"""Forty small faults, spread over the rooms, that the tests must notice.

python tests/support/mutations.py                    try all of them; 1 if too few are caught
python tests/support/mutations.py --only seq-check   try some

A mutation is one fragment of one module, written otherwise in a copy of the sources. A fault is
caught if a test fails or waits too long (pytest's exit code 1); a module that cannot be imported
is no test that failed. First the same tests must pass with the copy as it is.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib.util import cache_from_source
from pathlib import Path
from typing import Final, NamedTuple

__all__ = ["MUTATIONS", "NEEDED", "SOURCES", "Mutation"]

ROOT: Final = Path(__file__).parents[2]
SOURCES: Final = ROOT / "src" / "sightline"
NEEDED: Final = 38
_LIMIT_S: Final = 900
_TEST_S: Final = 100  # a test that waits for what a fault keeps from happening has failed
_MARK: Final = 42
_CHILD: Final = "import subprocess, sys; sys.exit(subprocess.run(sys.argv[1:]).returncode)"


class Mutation(NamedTuple):
    """A fault: which fragment of a module becomes what, and the tests that must notice."""

    name: str
    module: str
    fragment: str
    instead: str
    tests: str  # paths below tests/, separated by blanks

    def applied_to(self, source: str) -> str:
        """Write the module with the fault. Raises ValueError unless the fragment is there once."""
        found = source.count(self.fragment)
        if found != 1:
            raise ValueError(f"{self.name}: its fragment is {found} times in {self.module}")
        return source.replace(self.fragment, self.instead)


MUTATIONS: Final = (
    Mutation(
        "trace-from-elsewhere",
        "telemetry.py",
        "above = _span_context(parent)",
        "above = None",
        "gateway/test_observer.py",
    ),
    # slop
    Mutation(
        "patch-order",
        "slop/protocol/patch.py",
        "for i, op in enumerate(ops):",
        "for i, op in enumerate(reversed([*ops])):",
        "slop/protocol/test_patch.py slop/protocol/test_diff.py",
    ),
    Mutation(
        "seq-check",
        "slop/protocol/consumer.py",
        "message.seq == mirror.seq + 1",
        "message.seq > mirror.seq",
        "slop/protocol/test_consumer.py",
    ),
    Mutation(
        "blind-trial",
        "slop/conform/consumers.py",
        'Verdict("gap.drop-old", not resubscribed)',
        'Verdict("gap.drop-old", True)',
        "slop/conform/test_trials.py",
    ),
    Mutation(
        "repeated-host",
        "slop/transports/door.py",
        "if len(hosts) != 1 or not self._is_ours(hosts[0].lower()):",
        "if not hosts or not self._is_ours(hosts[0].lower()):",
        "slop/transports/test_door.py",
    ),
    Mutation(
        "shared-directory",
        "slop/transports/owned.py",
        "_OTHERS_WRITE: Final = 0o022",
        "_OTHERS_WRITE: Final = 0o002",
        "slop/transports/test_unix.py slop/discovery/test_discovery.py",
    ),
    Mutation(
        "descriptor-mode",
        "slop/discovery/directory.py",
        "if found.st_mode & 0o022:",
        "if found.st_mode & 0o020:",
        "slop/discovery/test_discovery.py",
    ),
    Mutation(
        "descriptor-elsewhere",
        "slop/discovery/descriptor.py",
        'is_loopback(parts.hostname or "")',
        "bool(parts.hostname)",
        "slop/discovery/test_discovery.py",
    ),
    Mutation(
        "action-authorize",
        "slop/app/invoking.py",
        "for hook in (self.authorize, action.authorize):",
        "for hook in (self.authorize,):",
        "slop/app/test_invoking.py",
    ),
    Mutation(
        "failed-condition",
        "slop/app/exposure.py",
        'failed; it is not offered", action.name)\n        return False',
        'failed; it is not offered", action.name)\n        return True',
        "slop/app/test_invoking.py slop/app/test_app.py",
    ),
    Mutation(
        "another-app-answers",
        "slop/hub/client.py",
        "if self._provider is not None and self._provider.id != provider.id:",
        "if self._provider is not None and self._provider.name != provider.name:",
        "slop/hub/test_client.py slop/hub/test_impostors.py",
    ),
    Mutation(
        "content-directory",
        "slop/hub/content.py",
        "path.is_relative_to(directory.resolve())",
        "str(path).startswith(str(directory.resolve()))",
        "slop/hub/test_content.py",
    ),
    # context
    Mutation(
        "layers-of-codes",
        "context/projection/escape.py",
        "_LAYERS: Final = 8",
        "_LAYERS: Final = 1",
        "context/projection/test_escape.py laws/test_law_4_nothing_forged.py",
    ),
    Mutation(
        "state-budget",
        "context/projection/select.py",
        "if tokens <= purse.budget or not purse.taken:",
        "if tokens <= purse.budget * 2 or not purse.taken:",
        "context/projection/test_select.py",
    ),
    Mutation(
        "window-fold",
        "context/messages/window.py",
        "(total - self.size) % (self.slack + 1)",
        "(total - self.size) % (self.slack + 2)",
        "context/messages/test_window.py",
    ),
    Mutation(
        "longest-key-first",
        "context/messages/redact.py",
        "key=lambda secret: (-len(secret), secret)",
        "key=lambda secret: (len(secret), secret)",
        "context/messages/test_redact.py",
    ),
    Mutation(
        "depth-limit",
        "context/messages/gate.py",
        "if depth > MAX_DEPTH:",
        "if depth > 2 * MAX_DEPTH:",
        "context/messages/test_gate.py context/dialects/test_deep_arguments.py",
    ),
    Mutation(
        "calibration",
        "context/tokens/estimate.py",
        "self.estimated * FORGETTING + predicted / self.factor,",
        "self.estimated * FORGETTING + predicted,",
        "context/tokens/test_tokens.py",
    ),
    Mutation(
        "output-share",
        "context/slots/slots.py",
        "output_tokens = min(max_output_tokens, window_tokens // OUTPUT_SHARE)",
        "output_tokens = min(max_output_tokens, window_tokens // 2)",
        "context/slots/test_budget.py",
    ),
    Mutation(
        "prompt-boundary",
        "context/slots/assemble.py",
        "boundary = bisect_left(indexes, stable)",
        "boundary = bisect_left(indexes, stable + 1)",
        "context/slots/test_slots_seed.py context/slots/test_slot_decisions.py "
        "context/slots/test_strategies.py",
    ),
    Mutation(
        "drift-kind",
        "context/dialects/drift.py",
        "if common >= previous.boundary:",
        "if common > previous.boundary:",
        "context/dialects/test_drift.py",
    ),
    Mutation(
        "usage-of-cache-writes",
        "context/dialects/anthropic.py",
        'input_tokens=fields.count("input_tokens") + read + write,',
        'input_tokens=fields.count("input_tokens") + read,',
        "context/dialects/test_usage.py context/dialects/test_decoders.py",
    ),
    Mutation(
        "cache-boundary",
        "context/dialects/segments.py",
        "boundary = at if joins or last is None else at + len(close)",
        "boundary = at",
        "context/dialects/test_segments.py context/dialects/test_placement.py "
        "laws/test_law_6_boundary.py laws/test_law_6_dialects.py",
    ),
    Mutation(
        "owner-check",
        "context/ledger/work.py",
        "if self._work._store.attends(other):",
        "if other and not self._work._store.attends(other):",
        "context/ledger/test_work.py agent/host/test_takeover.py",
    ),
    Mutation(
        "redo-order",
        "context/ledger/groups.py",
        '"SELECT * FROM undone WHERE session_id = ? ORDER BY group_id LIMIT 1"',
        '"SELECT * FROM undone WHERE session_id = ? ORDER BY group_id DESC LIMIT 1"',
        "context/ledger/test_groups.py",
    ),
    Mutation(
        "exported-title",
        "context/ledger/portable.py",
        '"parent", "title", "first_group",',
        '"parent", "first_group",',
        "context/ledger/test_portable.py context/ledger/test_work.py",
    ),
    # config
    Mutation(
        "project-mode",
        "config/load.py",
        'return "" if value == "plan" else',
        'return "" if value in ("plan", "auto") else',
        "config/test_load.py",
    ),
    Mutation(
        "numbers-as-text",
        "config/load.py",
        "msgspec.convert(value, kind, strict=not lenient)",
        "msgspec.convert(value, kind, strict=False)",
        "config/test_load.py",
    ),
    # agent
    Mutation(
        "remembered-answer",
        "agent/policy.py",
        "answer.digest == facts.digest and (answer.dangerous or not facts.risky)",
        "answer.digest == facts.digest",
        "agent/test_policy.py",
    ),
    Mutation(
        "changed-description",
        "agent/policy.py",
        "answer.digest == facts.digest and (answer.dangerous or not facts.risky)",
        "(answer.dangerous or not facts.risky)",
        "agent/test_policy.py",
    ),
    Mutation(
        "round-limit",
        "agent/turn/machine.py",
        "if self._replies >= limits.rounds:",
        "if self._replies > limits.rounds:",
        "agent/turn/test_machine.py",
    ),
    Mutation(
        "unknown-price-as-zero",
        "_amounts.py",
        "if usd is None or (unpriced and not usd):",
        "if usd is None:",
        "test_amounts.py",
    ),
    Mutation(
        "passing-failures",
        "agent/models/connected.py",
        "is_passing = status >= 500 or status in PASSING",
        "is_passing = status >= 500",
        "agent/models/test_failure.py",
    ),
    Mutation(
        "foreign-prompt",
        "agent/plugins/run.py",
        "if isinstance(result, Prompt) and ctx.slots.rendered(result):",
        "if isinstance(result, Prompt):",
        "agent/plugins/test_run.py",
    ),
    Mutation(
        "one-spelling-of-a-path",
        "agent/toolbox/toolbox.py",
        "return target._replace(path=normal_path(target.path))",
        "return target",
        "agent/toolbox/test_toolbox.py agent/toolbox/test_apps.py",
    ),
    Mutation(
        "links-not-followed",
        "agent/workspace/inside.py",
        "_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC",
        "_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC",
        "agent/workspace/test_inside.py",
    ),
    Mutation(
        "passage-once",
        "agent/workspace/text.py",
        "if at < 0 or (text.find(old, at + 1) >= 0 and not every):",
        "if at < 0:",
        "agent/workspace/test_text.py",
    ),
    Mutation(
        "files-agreed",
        "agent/host/running.py",
        "if not shown.same_plan(plan):",
        "if plan is None:",
        "agent/host/test_workspace.py",
    ),
    Mutation(
        "consent-comparison",
        "agent/host/judge.py",
        "return self.same_facts(other) and self.seen.picture() == other.seen.picture()",
        "return self.same_facts(other)",
        "agent/host/test_consent.py",
    ),
    Mutation(
        "reply-kept-once",
        "agent/host/writing.py",
        "work.group_id != last.group_id or work.after_seq != last.seq:",
        "work.group_id != last.group_id:",
        "agent/host/test_recovery.py",
    ),
    Mutation(
        "pid-taken-again",
        "agent/bridge.py",
        "is_alive(record.pid) and process_start(record.pid) == record.started",
        "is_alive(record.pid)",
        "agent/test_bridge.py",
    ),
    # inspector
    Mutation(
        "token-spent",
        "inspector/door.py",
        "self._tokens.pop(known)()",
        "self._tokens[known]()",
        "inspector/test_door.py",
    ),
    Mutation(
        "what-if-in-another-room",
        "inspector/whatif.py",
        'layers = replace(inputs.layers, apps="", state="")',
        "layers = inputs.layers",
        "inspector/test_whatif.py inspector/test_whatif_law.py",
    ),
    # gateway
    Mutation(
        "marks-count",
        "gateway/bodies.py",
        'MARKS: Final = frozenset({"cache_control", "prompt_cache_breakpoint", "cachePoint"})',
        "MARKS: Final[frozenset[str]] = frozenset()",
        "gateway/test_bodies.py gateway/test_losses.py",
    ),
    # adapters
    Mutation(
        "loop-agreed",
        "adapters/tools.py",
        "check = partial(self._check, call, agreed, whole=asked_about)",
        "check = None",
        "adapters/test_loops.py",
    ),
    # cli
    Mutation(
        "two-slashes",
        "cli/commands/registry.py",
        "return line.startswith(MARK) and not line.startswith(MARK * 2)",
        "return line.startswith(MARK)",
        "cli/commands/test_registry.py cli/chat/test_pipe.py",
    ),
    Mutation(
        "exit-code",
        "cli/main.py",
        "return error.exit_code",
        "return 1",
        "cli/test_main.py cli/test_ledger_commands.py",
    ),
)


class SourceCopy:
    """A copy of the sources that our programs import instead of the installed ones."""

    def __init__(self, place: Path) -> None:
        self.output = place / "output"
        self._package = place / "src" / "sightline"
        shutil.copytree(SOURCES, self._package, ignore=shutil.ignore_patterns("__pycache__"))
        self._env = {
            **os.environ,
            "PYTHONPATH": str(place / "src"),
            # A failure found here is not tried again elsewhere, nor the other way round.
            "HYPOTHESIS_STORAGE_DIRECTORY": str(place / "hypothesis"),
        }

    @contextmanager
    def changed(self, module: str, source: str) -> Iterator[None]:
        """Have a module read otherwise while the block runs."""
        path = self._package / module
        before = path.read_text(encoding="utf-8")
        try:
            _write(path, source)
            yield
        finally:
            _write(path, before)

    def is_imported(self) -> bool:
        """Tell whether every way in which the tests start our code finds the copy."""
        program = str(Path(sys.executable).with_name("sightline"))
        ways = (
            [sys.executable, "-c", "import sightline"],
            [sys.executable, "-m", "sightline", "--version"],
            [program, "--version"],
            # A child of a child, in the environment that it was given.
            [sys.executable, "-c", _CHILD, program, "--version"],
        )
        with self.changed("__init__.py", f"raise SystemExit({_MARK})\n"):
            return all(self._run(way) == _MARK for way in ways)

    def test(self, tests: Sequence[str]) -> int | None:
        """Run tests and return pytest's exit code; None if they do not end."""
        paths = [f"tests/{path}" for path in tests]
        options = ["-q", "-x", "-n", "0", "-p", "no:cacheprovider", "--timeout", str(_TEST_S)]
        return self._run([sys.executable, "-m", "pytest", *options, *paths])

    def _run(self, command: list[str]) -> int | None:
        with self.output.open("wb") as output, suppress(subprocess.TimeoutExpired):
            return subprocess.run(
                command, cwd=ROOT, env=self._env, timeout=_LIMIT_S, check=False,
                stdin=subprocess.DEVNULL, stdout=output, stderr=output,
            ).returncode  # fmt: skip
        return None


def _write(path: Path, source: str) -> None:
    path.write_text(source, encoding="utf-8")
    # What was compiled is told from its source by seconds and size, which may be the same.
    Path(cache_from_source(str(path))).unlink(missing_ok=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Try the mutations and return the exit code."""
    parser = argparse.ArgumentParser(description="Forty small faults that the tests must notice.")
    names = [mutation.name for mutation in MUTATIONS]
    parser.add_argument("--only", nargs="+", choices=names, metavar="NAME", default=names)
    only = parser.parse_args(arguments).only
    chosen = [mutation for mutation in MUTATIONS if mutation.name in only]
    with tempfile.TemporaryDirectory(prefix="mutations-") as place:
        copy = SourceCopy(Path(place))
        if not copy.is_imported():
            _say("The tests would not see the copy: nothing was tried.")
            return 2
        every = sorted({path for mutation in chosen for path in mutation.tests.split()})
        began = time.monotonic()
        control = copy.test(every)
        _say(f"control: {len(every)} files, exit code {control}, {time.monotonic() - began:.0f} s")
        if control != 0:
            _say(copy.output.read_text(encoding="utf-8", errors="replace")[-4000:])
            _say("The tests fail without a fault: nothing was tried.")
            return 2
        caught = sum(_is_caught(copy, mutation) for mutation in chosen)
    _say(f"{caught} of {len(chosen)} caught")
    return int(caught < min(NEEDED, len(chosen)))


def _is_caught(copy: SourceCopy, mutation: Mutation) -> bool:
    began = time.monotonic()
    source = (SOURCES / mutation.module).read_text(encoding="utf-8")
    with copy.changed(mutation.module, mutation.applied_to(source)):
        code = copy.test(mutation.tests.split())
    told = {1: "caught", 0: "MISSED", None: "DID NOT END"}.get(code, f"EXIT CODE {code}")
    took = f"{time.monotonic() - began:5.1f} s"
    _say(f"{mutation.name:26} {mutation.module:32} {told:12} {took}")
    return code == 1


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
