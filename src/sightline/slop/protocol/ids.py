"""Which strings may name a node or an app, and how to make a node's id from any string.

`legal_id` is injective and stable: two strings never share an id, and the same
string has the same id tomorrow. Readable strings stay readable; `%` is the
escape character, as in URLs:

    "msg-42"              →  "msg-42"
    "src/main.py"         →  "src%2Fmain.py"
    "type" (reserved)     →  "%74ype"
    ""                    →  "%"
    longer than an id     →  its beginning, "%-", and the SHA-256 of the whole

An app's id is stricter, because people and rules go by it: printable ASCII that is a file name
and nothing more, so that no two ids look alike by script or by what cannot be seen, and none
that reads as the id of one of the host's own apps. A name is for the eye: any script, one line,
nothing invisible.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from typing import Final

# SLOP, state tree: an id is no name of a field, and has neither / nor ~.
RESERVED: Final = frozenset(
    {"properties", "children", "affordances", "meta", "content_ref", "id", "type"}
)
ID_BYTES: Final = 256
# The ids of the apps that a host brings itself. Nobody else gets one, nor what reads like one.
OWN_APPS: Final = frozenset({"workspace"})

_FORBIDDEN: Final = re.compile("[/~]")
_ESCAPED: Final = re.compile("[%/~\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_DIGEST_CHARS: Final = 64

_APP_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_NAME_CHARS: Final = 256
# What is not seen, or moves what is. Written out: a table of the interpreter's would grow with it.
_UNSEEN: Final = re.compile(
    "[\x00-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f"
    "\u2028-\u202e\u2060-\u206f\u2800\u3164\ufe00-\ufe0e\ufeff\uffa0\ufff0-\uffff\ud800-\udfff"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
    # Joiners, and the selector of emoji, belong between or behind characters beyond ASCII.
    "|(?<![^\x00-\x7f])[\u200c\u200d\ufe0f]|[\u200c\u200d](?![^\x00-\x7f])"
    "|[\u200c\u200d\ufe0f]{3}"
)
_SEPARATORS: Final = re.compile("[._-]")
_NOT_IN_APP_ID: Final = re.compile("[^a-z0-9._]+")
_NUMBERED: Final = re.compile("[._-]*[0-9]*[._-]*$")
_READS_AS: Final = str.maketrans("013457", "oleast")


def id_problem(node_id: object, max_bytes: int = ID_BYTES) -> str | None:
    """Say which rule a node id breaks, or None if it is legal."""
    if not isinstance(node_id, str):
        return "an id must be a string"
    if not node_id:
        return "an id must not be empty"
    if node_id in RESERVED:
        return f"an id must not be the reserved field name {node_id!r}"
    if _FORBIDDEN.search(node_id):
        return f"an id must not contain '/' or '~': {node_id[:80]!r}"
    try:
        size = len(node_id.encode())
    except UnicodeEncodeError:
        return f"an id must not contain a lone surrogate: {node_id[:80]!r}"
    if size > max_bytes:
        return f"an id must not be longer than {max_bytes} bytes (this one has {size})"
    return None


def app_id_problem(app_id: str) -> str | None:
    """Say why a string cannot be an app's id, or None if it can."""
    if not _APP_ID.fullmatch(app_id):
        return (
            f"an app's id must be 1 to 128 letters, digits, '.', '_' and '-', not {app_id[:80]!a}"
        )
    return None


def app_name_problem(name: str) -> str | None:
    """Say why a string cannot be shown as an app's name, or None if it can."""
    if not name.strip():
        return "an app's name must not be empty"
    if len(name) > _NAME_CHARS:
        return f"an app's name has at most {_NAME_CHARS} characters (this one has {len(name)})"
    if _UNSEEN.search(name):
        return "an app's name must not contain control characters, nor invisible ones"
    return None


def suggested_app_id(text: str) -> str:
    """Make an app's id of what an author calls the app: `My Notes` would be `my-notes`."""
    plain = unicodedata.normalize("NFKD", text[:_NAME_CHARS]).encode("ascii", "ignore").decode()
    app_id = _NOT_IN_APP_ID.sub("-", plain.lower())[:100].strip("-._") or "app"
    return f"{app_id}-app" if reads_as_own(app_id) or app_id in RESERVED else app_id


def reads_as_own(app_id: str) -> bool:
    """Tell whether a legal app id is one of the host's own, or could be taken for it.

    Case, separators, digits that stand for letters and a number at the end make no difference.
    """
    return not _skeletons(app_id).isdisjoint(OWN_APPS)


def _skeletons(app_id: str) -> set[str]:
    """What an id reads as: at once, and without the number behind it."""
    plain = app_id.lower()
    return {
        _SEPARATORS.sub("", text).translate(_READS_AS).replace("vv", "w")
        for text in (plain, _NUMBERED.sub("", plain))
    }


def legal_id(text: str) -> str:
    """Make the legal id of any string: a URL, a file path, a foreign key."""
    if not text:
        return "%"
    # SLOP, state tree: ids from external sources are escaped or hashed.
    escaped = _ESCAPED.sub(_percent, text)
    if escaped in RESERVED:
        escaped = f"%{ord(escaped[0]):02X}{escaped[1:]}"
    if len(escaped.encode()) <= ID_BYTES:
        return escaped
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    room = ID_BYTES - _DIGEST_CHARS - len("%-")
    head = escaped.encode()[:room].decode(errors="ignore")
    return f"{head}%-{digest}"


def _percent(match: re.Match[str]) -> str:
    return "".join(f"%{byte:02X}" for byte in match[0].encode("utf-8", "surrogatepass"))
