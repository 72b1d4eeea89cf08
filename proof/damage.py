"""A ledger whose bytes were changed behind its back."""

from __future__ import annotations

from context.ledger.damage import is_found, make_sound, sqlite_finds
from context.ledger.helpers import contents
from proof.claim import Claim, Trial


def bit_flips(trial: Trial) -> None:
    """Flip single bits of what was said; then of anything in the file."""
    place = trial.directory("sound")
    make_sound(place / "l.db")
    original = (place / "l.db").read_bytes()
    reference = contents(place / "l.db")
    words = [
        at for at in range(len(original)) if original.startswith((b"question", b"answer "), at)
    ]
    flipped_file = place / "flipped.db"
    by_sqlite = payload = 0

    def flip(at: int) -> bool:
        flipped = bytearray(original)
        flipped[at] ^= 1 << trial.random.randrange(8)
        flipped_file.write_bytes(flipped)
        return is_found(flipped_file)

    for _ in range(trial.times(1000)):
        at = trial.random.choice(words) + trial.random.randrange(8)
        trial.check(flip(at), f"a flipped bit at byte {at} was not found")
        payload += 1
        by_sqlite += sqlite_finds(flipped_file)
    for _ in range(trial.times(500)):
        at = trial.random.randrange(len(original))
        harmless = flip(at) or contents(flipped_file) == reference
        trial.check(harmless, f"a flipped bit at byte {at} changed something and was not found")
    trial.note("SQLite's own check", f"finds {by_sqlite} of the {payload} in what was said")


CLAIMS = (Claim("bits", "every flipped bit in what was said is found by verify", bit_flips),)
