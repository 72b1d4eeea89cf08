"""Run as a program: append to a ledger that others append to as well.

Arguments: the ledger's path, the session's number, this process's name, how many.
"""

from __future__ import annotations

import sys

from sightline.context.ledger import Ledger
from sightline.context.messages.parts import Message


def main() -> None:
    path, session_id, name, count = sys.argv[1:5]
    with Ledger(path) as ledger:
        for number in range(int(count)):
            message = Message.of("user", f"{name} {number}")
            ledger.append(int(session_id), [message], strategy="s", key=f"{name}-{number}")


if __name__ == "__main__":
    main()
