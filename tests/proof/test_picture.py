"""The picture of the chat shows what the chat shows."""

from __future__ import annotations

from pathlib import Path

import pytest
from proof.picture import PICTURE, picture

from support.share import WHOLE


@pytest.mark.skipif(not WHOLE, reason="LAWS=whole")
def test_the_picture_is_what_a_terminal_shows(tmp_path: Path) -> None:
    assert PICTURE.read_text("utf-8") == picture(tmp_path), "run: python -m proof.picture"
