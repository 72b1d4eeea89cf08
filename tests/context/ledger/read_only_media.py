"""Run as a program: read a ledger as somebody who may not write where it is.

Arguments: the ledger's path. Prints what could be read, or the error.
"""

from __future__ import annotations

import os
import sys
import urllib.parse  # noqa: F401 - for the address of a path: nobody may not import it later

from sightline.context.ledger import Ledger
from sightline.errors import SightlineError

NOBODY = 65534


def main() -> None:
    if os.getuid() == 0:  # root may write anywhere; nobody may not
        os.setgid(NOBODY)
        os.setuid(NOBODY)
    try:
        with Ledger(sys.argv[1], mode="read") as ledger:
            report = ledger.verify()
            sys.stdout.write(f"{report.messages} messages, {report.findings}")
    except SightlineError as error:
        sys.stdout.write(f"{error.code}: {error}")
    try:
        Ledger(sys.argv[1])
    except SightlineError as error:
        sys.stdout.write(f"\n{error.code}")


if __name__ == "__main__":
    main()
