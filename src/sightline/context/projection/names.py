"""Tool names: legal everywhere, unique after case folding, the same for the same tools.

`{node id}__{action}`, each part with `_` for what is not a letter, digit or `_`.
Where two would get one name, the parents' ids are put before it until they differ;
with several apps the app's id comes first. A name over the limit is cut, and ends
in `_` and seven digits of a hash over what it stands for.

Names are never read back: a tool set carries the exact map from name to action.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Collection, Sequence
from typing import Final

import msgspec

from sightline.errors import InvalidInput

NAME_LIMIT: Final = 64
_SHORTEST_LIMIT: Final = 16
_HASH_CHARS: Final = 7
_ILLEGAL: Final = re.compile(r"[^a-zA-Z0-9_]")


class WantedName(msgspec.Struct, frozen=True):
    """What a name is wanted for: an action on a node, given by the ids from the root to it.

    `app` is empty where there is only one. `variant` tells apart what has the same
    node and action; it shows in the name only where nothing else would.
    """

    app: str
    ids: tuple[str, ...]
    action: str
    variant: str = ""

    def name(self, parents: int) -> str:
        """The name with this many parents' ids in front."""
        ids = self.ids[max(len(self.ids) - 1 - parents, 0) :]
        parts = (self.app, *ids, self.action) if self.app else (*ids, self.action)
        name = "__".join(_ILLEGAL.sub("_", part) for part in parts)
        return f"_{name}" if name[:1].isdigit() else name

    def digest(self) -> str:
        """The hash over app, path, action and variant, by which two that share a name differ."""
        exact = "\0".join((self.app, *self.ids, self.action, self.variant)).encode(
            "utf-8", "surrogatepass"
        )
        return hashlib.sha256(exact).hexdigest()


def unique_names(
    wanted: Sequence[WantedName], limit: int = NAME_LIMIT, taken: Collection[str] = ()
) -> list[str]:
    """Name everything in `wanted`.

    Raises InvalidInput on a tiny limit, and where two of them are the same.
    """
    if limit < _SHORTEST_LIMIT:
        raise InvalidInput(f"a limit on names must be {_SHORTEST_LIMIT} or more, not {limit}")
    reserved = {name.casefold() for name in taken}
    parents = [0] * len(wanted)
    names = [item.name(0) for item in wanted]
    colliding = _colliding(names, reserved)
    while colliding:
        longer = [at for at in colliding if parents[at] < len(wanted[at].ids) - 1]
        if not longer:
            break
        for at in longer:
            parents[at] += 1
            names[at] = wanted[at].name(parents[at])
        colliding = _colliding(names, reserved)
    unsettled = set(colliding) | {at for at, name in enumerate(names) if len(name) > limit}
    digits = _HASH_CHARS
    while unsettled:
        if digits > limit - 2:
            raise InvalidInput("two actions have the same app, path and name")
        for at in unsettled:
            names[at] = _hashed(wanted[at], parents[at], limit, digits)
        # A cut name may meet another; more of the hash parts them.
        unsettled = set(_colliding(names, reserved))
        digits += 1
    return names


def _hashed(item: WantedName, parents: int, limit: int, digits: int) -> str:
    return f"{item.name(parents)[: limit - 1 - digits]}_{item.digest()[:digits]}"


def _colliding(names: Sequence[str], reserved: set[str]) -> list[int]:
    folded = [name.casefold() for name in names]
    counts = Counter(folded)
    return [at for at, name in enumerate(folded) if counts[name] > 1 or name in reserved]
