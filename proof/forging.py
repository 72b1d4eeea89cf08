"""App text that tries to pass for the host's own."""

from __future__ import annotations

import random

from proof.claim import Claim, Trial
from support import lenient
from support.blocks import (
    NODES,
    PER_NODE,
    assert_nothing_is_forged,
    assert_random_text_forges_nothing,
)
from support.forgeries import corpus


def forged(trial: Trial) -> None:
    """Say every disguised tag, line and action in every place where an app can say something."""
    attempts = corpus()
    fooled = sum(bool(lenient.tags(text + ">")) for how, text in attempts if "slop-" in how)
    trial.control(fooled > 100, f"{fooled} tags fool the reader if nothing is escaped")
    for how, text in trial.random.sample(attempts, trial.times(len(attempts), least=40)):
        try:
            assert_nothing_is_forged([text])
        except AssertionError as error:
            trial.check(False, f"{how}: {error}")
        else:
            trial.check(True, how)
    for _ in range(trial.times(1_000_000 // (NODES * PER_NODE))):
        seed = trial.random.randrange(2**48)
        trial.tried += NODES * PER_NODE - 1
        try:
            assert_random_text_forges_nothing(random.Random(seed), 1)
        except AssertionError as error:
            trial.check(False, f"text {seed}: {error}")
        else:
            trial.check(True, "random text")


CLAIMS = (
    Claim("forging", "forged tags, lines and actions, and 10⁶ random strings: none gets through",
          forged),
)  # fmt: skip
