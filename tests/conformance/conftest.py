"""The live requirements hold over every transport."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from support.live import TRANSPORTS, served
from support.wire import Wire


@pytest.fixture(params=TRANSPORTS)
async def wire(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Wire]:
    """A connection over each transport, its hello not yet read."""
    async with served(request.param, tmp_path) as dial:
        link = await dial()
        yield Wire(link)
        await link.close()
