"""Sixteen hosts on one ledger in PostgreSQL, while hosts and the server are killed."""

from __future__ import annotations

from context.ledger import many_hosts
from proof.claim import Claim, Trial
from support import postgres

APPENDS, PER_KILL, PER_SERVER = 1_000_000, 2000, 50_000


def fleet(trial: Trial) -> None:
    """Kill hosts and the server with SIGKILL while all append; then read every message."""
    if reason := postgres.lacks():
        raise OSError(reason)
    appends = trial.times(APPENDS // many_hosts.HOSTS) * many_hosts.HOSTS
    with postgres.server() as server:
        lied = many_hosts.killed(server, 160, hosts=8, servers=0, seed=trial.seed, early=True)
        trial.control(lied["lost"], f"{lied['lost']} lost by hosts that acknowledge too early")
        found = many_hosts.killed(
            server, appends, hosts=max(8, appends // PER_KILL),
            servers=max(2, appends // PER_SERVER), seed=trial.seed,
        )  # fmt: skip
    trial.tried += found["messages"]
    for fault in ("lost", "doubled", "disordered"):
        trial.check(not found[fault], f"{fault}: {found[fault]}")
    trial.check(not found["findings"], f"it does not verify: {found['findings'][:3]}")
    trial.check(found["messages"] == appends, f"{found['messages']} messages of {appends}")
    trial.note("kills", f"{found['kills']:,}")


CLAIMS = (
    Claim(
        "fleet",
        "16 hosts on PostgreSQL, kill -9 of them and of it: nothing lost, doubled or out of order",
        fleet,
        hangs_after_s=4 * 3600,  # a million took half an hour on two cores
    ),
)
