"""What must not be read, written or kept: hostile SQL, planted secrets."""

from __future__ import annotations

import logging
import random
import re
import string
from collections.abc import Callable

from ledger.helpers import contents, fill
from ledger.hostile import HOSTILE
from ledger.planted import WAYS, bytes_of
from proof.claim import Claim, Trial
from sightline.errors import InvalidInput, QueryRefused
from sightline.ledger import Ledger
from sightline.ledger.retrieval import QueryLimits

LIMITS = QueryLimits(seconds=0.3, memory_mib=16)


def hostile_sql(trial: Trial) -> None:
    """Ask for everything that a model must not have."""
    chosen = trial.random.sample(HOSTILE, min(len(HOSTILE), trial.times(len(HOSTILE), least=20)))
    out = trial.place / "out"
    with Ledger(trial.directory("sql") / "l.db") as ledger:
        session = ledger.sessions.create("s").id
        fill(ledger, session, 20)
        before = contents(ledger.path)
        beside = sorted(ledger.path.parent.iterdir())
        for sql, reason in chosen:
            try:
                ledger.query(sql.replace("{out}", str(out)), session_id=session, limits=LIMITS)
            except QueryRefused as error:
                trial.check(re.search(reason, str(error)), f"{sql[:60]!r}: {error}")
            else:
                trial.check(False, f"{sql[:60]!r} was answered")
            trial.check(
                contents(ledger.path) == before
                and not out.exists()
                and sorted(ledger.path.parent.iterdir()) == beside,
                f"{sql[:60]!r} left a trace",
            )
        rows = ledger.query("SELECT count(*) FROM messages", session_id=session).rows
        trial.check(rows == ((80,),), "the next honest query is not answered")


ALNUM = string.ascii_letters + string.digits
UPPER = string.ascii_uppercase + string.digits
HEX = "0123456789abcdef"


def _of(alphabet: str, length: int) -> Callable[[random.Random], str]:
    return lambda rng: "".join(rng.choices(alphabet, k=length))


# How a key looks where people paste it; `{}` is what must not be kept.
SHAPES: tuple[tuple[str, Callable[[random.Random], str]], ...] = (
    ("sk-ant-api03-{}", _of(ALNUM, 40)),
    ("sk-or-v1-{}", _of(HEX, 64)),
    ("sk-proj-{}", _of(ALNUM, 48)),
    ("AIza{}", _of(ALNUM, 35)),
    ("ya29.{}", _of(ALNUM, 60)),
    ("AKIA{}", _of(UPPER, 16)),
    ("ASIA{}", _of(UPPER, 16)),
    ("ghp_{}", _of(ALNUM, 36)),
    ("github_pat_{}", _of(ALNUM, 60)),
    ("glpat-{}", _of(ALNUM, 20)),
    ("xoxb-{}", _of(string.digits, 24)),
    ("https://hooks.slack.com/services/{}", _of(UPPER, 30)),
    ("sk_live_{}", _of(ALNUM, 24)),
    ("npm_{}", _of(ALNUM, 36)),
    ("pypi-{}", _of(ALNUM, 80)),
    ("hf_{}", _of(ALNUM, 34)),
    ("SG.abcdefghijklmnop.{}", _of(ALNUM, 43)),
    ("gsk_{}", _of(ALNUM, 52)),
    ("dop_v1_{}", _of(HEX, 64)),
    ("AGE-SECRET-KEY-1{}", _of(UPPER, 58)),
    ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.{}", _of(ALNUM, 43)),
    ("Authorization: Bearer {}", _of(ALNUM, 40)),
    ("postgres://admin:{}@db.example/prod", _of(ALNUM, 16)),
    ("password = {}", _of(ALNUM, 20)),
    ("-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----", _of(ALNUM, 64)),
)


class _Heard(logging.Handler):
    """Keeps everything that is logged."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.text: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.text.append(self.format(record))


def secrets(trial: Trial) -> None:
    """Plant keys on every way into a ledger, then look for them in its files and in the log."""
    heard = _Heard()
    root = logging.getLogger()
    before = root.level
    root.addHandler(heard)
    root.setLevel(logging.DEBUG)
    try:
        for number in range(trial.times(50, least=len(SHAPES))):
            shape, make = SHAPES[number % len(SHAPES)]
            secret = make(trial.random)
            stored = _plant(trial, shape.format(secret), redact=True)
            trial.check(secret.encode() not in stored, f"{shape} is in the ledger's files")
            trial.check(secret not in "\n".join(heard.text), f"{shape} is in the log")
    finally:
        root.removeHandler(heard)
        root.setLevel(before)
    open_secret = SHAPES[0][1](trial.random)
    kept = _plant(trial, SHAPES[0][0].format(open_secret), redact=False)
    trial.control(open_secret.encode() in kept, "with redaction off the same search finds it")
    trial.note("ways in", str(len(WAYS)))


def _plant(trial: Trial, text: str, *, redact: bool) -> bytes:
    with Ledger(trial.directory("planted") / "l.db", redact=redact) as ledger:
        for way in WAYS:
            session = ledger.sessions.create("s").id
            try:
                way(ledger, session, text)
            except InvalidInput:
                continue  # a name has one line: refused, so not stored either
        trial.check(ledger.verify().ok, "a redacted ledger does not verify")
        return bytes_of(ledger)


CLAIMS = (
    Claim("sql", "hostile SQL: a clear error, nothing changed, nothing written", hostile_sql),
    Claim("secrets", "planted secrets are in no file of the ledger and in no log", secrets),
)
