"""`from sightline import …` offers exactly what it says."""

from __future__ import annotations

import subprocess
import sys
from types import ModuleType

import pytest

import sightline


def test_every_public_name_can_be_had() -> None:
    for name in sightline.__all__:
        assert getattr(sightline, name).__module__.startswith("sightline.")


def test_there_are_no_other_public_names() -> None:
    for name in sightline.__all__:
        getattr(sightline, name)
    plumbing = {"annotations", "import_module", "TYPE_CHECKING", "Any"}
    visible = {
        name
        for name, value in vars(sightline).items()
        if not name.startswith("_") and not isinstance(value, ModuleType)
    }
    assert visible - plumbing == set(sightline.__all__)
    assert dir(sightline) == sightline.__all__ == sorted(sightline.__all__)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Sightline'"):
        _ = sightline.Sightline


def test_importing_the_package_loads_nothing_else() -> None:
    code = "import sys, sightline; print([m for m in sys.modules if m.startswith('sightline.')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert done.stdout == b"[]\n"
