"""Nodes differ exactly when they are not equal; the native base class has other ideas."""

from __future__ import annotations

from sightline.demo import demo_tree
from sightline.slop.protocol.codec import decode, encode


def test_not_equal_is_the_opposite_of_equal() -> None:
    one, same = demo_tree(), decode(encode(demo_tree()))
    other = one.with_property("label", "Other")
    assert one == same
    assert not (one != same)  # noqa: SIM202 - `!=` is what is tested
    assert one != other
    assert one != "desk"
