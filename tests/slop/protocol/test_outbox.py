"""What waits for a reader: in order, bounded, and charged to who holds it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sightline.slop.protocol.limits import ProviderLimits
from sightline.slop.protocol.outbox import Body, Outbox

LIMITS = ProviderLimits(queue_bytes=10_000, own_bytes=2_000)


def filled(*bodies: Body) -> int:
    """How many of these fit, one after the other, into a box of their own."""
    box = Outbox(LIMITS)
    for body in bodies:
        if not box.has_room(body):
            break
        box.add(b"head", body)
    return len(box)


def test_messages_come_out_as_they_went_in() -> None:
    box = Outbox(LIMITS)
    box.add(b'{"a":1}')
    box.add(b'{"b":', Body(b"[2]"))
    assert [b"".join(box.take()) for _ in "ab"] == [b'{"a":1}', b'{"b":[2]}']
    assert (len(box), box.size) == (0, 0)


def test_one_who_stalls_alone_is_cut_off_sooner_than_many_who_stall_together() -> None:
    assert filled(*(Body(b"x" * 500) for _ in range(100))) == 3
    together = [Body(b"x" * 500) for _ in range(100)]
    for body in together:
        body.holders = 1000  # others that have not read it either
    assert filled(*together) == 12


def test_who_is_left_alone_is_charged_for_all_of_it() -> None:
    boxes = [Outbox(LIMITS) for _ in range(10)]
    for _ in range(6):
        body = Body(b"x" * 1000)
        for box in boxes:
            box.add(b"", body)
    last, *others = boxes
    assert last.has_room(Body(b"x" * 10))
    for box in others:
        box.clear()
    assert not last.has_room(Body(b"x" * 10))


def test_nothing_more_is_asked_of_who_does_not_read() -> None:
    box = Outbox(LIMITS)
    fullness = []
    for _ in range(3):
        fullness.append(box.is_full)
        box.add(b"x" * 900)
    box.take()
    box.take()
    assert [*fullness, box.is_full] == [False, False, True, False]


def test_any_message_fits_into_an_empty_box() -> None:
    assert Outbox(LIMITS).has_room(Body(b"x" * 1_000_000))


@given(st.lists(st.tuples(st.integers(0, 3), st.binary(max_size=9)), max_size=20))
def test_what_one_owner_drops_leaves_the_rest_in_order(items: list[tuple[int, bytes]]) -> None:
    owners = [object() for _ in range(4)]
    shared = Body(b"shared")
    box = Outbox(LIMITS)
    for owner, head in items:
        box.add(head, shared, owners[owner])
    box.drop(owners[0])
    kept = [head for owner, head in items if owner != 0]
    assert shared.holders == len(box) == len(kept)
    assert box.size == sum(len(head) + len(b"shared") for head in kept)
    assert [box.take() for _ in kept] == [(head, b"shared", b"}") for head in kept]
    assert (shared.holders, box.size) == (0, 0)
