"""One trial: a conversation with a peer, as a generator that knows no wire and no clock. Pure.

A trial yields what it says and when it has heard enough (`Say`), is sent what was heard up to
then, and returns a verdict for each of its clauses: literal messages in, verdicts out. Who drives
it has the wire and the bounds. Where the peer falls silent, hangs up or floods, the trial ends:
the clause that it was at is not kept, and the others were not reached.

How a provider is asked in one, and how its answers are read, is here too.

An answer is told from everything else by its id, and "nothing was sent" by a query that is asked
afterwards: whatever comes before its answer came first.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple, TypeAlias, TypeVar

from sightline.errors import InvalidInput
from sightline.slop.protocol.codec import from_value
from sightline.slop.protocol.tree import Node

Message: TypeAlias = dict[str, Any]


class NotShown(Exception):
    """This peer gives no occasion to see whether it keeps a clause; the text says what lacks."""


@dataclass(frozen=True, slots=True)
class Say:
    """What a trial says next (bytes go as they are), and the message after which it goes on.

    Silence ends the trial, or is an answer too, or is hoped for and then not waited out for
    long. `tries` is the clause that is not kept if it ends here; the trial's first by default.
    """

    messages: tuple[Message | bytes, ...]
    enough: Callable[[Message], bool]
    silence: Literal["ends", "answers", "hoped"] = "ends"
    tries: str = ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a peer keeps a clause, None where it gave no occasion, and why we say so."""

    clause: str
    held: bool | None
    why: str = ""


def where(occasion: object, clause: str, held: bool, lacks: str) -> Verdict:
    """Give a verdict where there was an occasion to see; else say what lacked."""
    return Verdict(clause, held) if occasion else Verdict(clause, None, lacks)


Trial: TypeAlias = Generator[Say, list[Message], list[Verdict]]


@dataclass(frozen=True, slots=True)
class TrialKind:
    """A trial that can be begun, and the clauses on which it gives a verdict."""

    name: str
    clauses: tuple[str, ...]
    begin: Callable[..., Trial]


def answers(request: str) -> Callable[[Message], bool]:
    """Tell the answer to a request from everything else that comes."""
    return lambda message: message.get("id") == request


# Names that no app has.
NOWHERE: Final = "/sightline-conform-no-such-node"
NO_ACTION: Final = "sightline-conform-no-such-action"
_T = TypeVar("_T")
Part = Generator[Say, list[Message], _T]


@dataclass(frozen=True, slots=True)
class TrialTarget:
    """A provider that is tried: what it said of itself, and what may be done to it."""

    hello: Message = field(default_factory=dict)
    act: tuple[str, str] | None = None
    params: Message = field(default_factory=dict)
    look_only: bool = False

    @property
    def about(self) -> Mapping[str, Any]:
        """What hello says of the provider, or nothing."""
        about = self.hello.get("provider")
        return about if isinstance(about, dict) else {}

    def offers(self, capability: str) -> bool:
        """Tell whether the provider declares a capability."""
        declared = self.about.get("capabilities")
        return isinstance(declared, list) and capability in declared

    def must_offer(self, capability: str) -> None:
        """Leave the trial where a capability is not declared."""
        if not self.offers(capability):
            raise NotShown(f"it does not declare {capability!r}")


def tries(*clauses: str) -> Callable[[Callable[[TrialTarget], Trial]], TrialKind]:
    """Make a trial of a function, which gives a verdict on these clauses."""
    return lambda begin: TrialKind(begin.__name__, clauses, begin)


def ask(message: Message) -> Part[Message]:
    """Send one request; return its answer."""
    heard = yield Say((message,), answers(message["id"]))
    return heard[-1]


def before_answer(*messages: Message | bytes) -> Part[list[Message]]:
    """Say something and then ask for the root; return what came before the answer to that."""
    last = {"type": "query", "id": "then", "path": "/", "depth": 0}
    heard = yield Say((*messages, last), answers("then"))
    return heard[:-1]


def query(request_id: str, **options: Any) -> Message:
    """Write a query of the root."""
    return {"type": "query", "id": request_id, "path": "/", **options}


def code_of(message: Message) -> object:
    """Return the error code of an answer, or None."""
    error = message.get("error")
    return error.get("code") if isinstance(error, dict) else None


def is_error(message: Message, request_id: str, code: str) -> bool:
    """Tell whether a message refuses this request with this code."""
    answer = (message.get("type"), message.get("id"), code_of(message))
    return answer == ("error", request_id, code)


def is_count(value: object) -> bool:
    """Tell whether a JSON value is a whole number, 0 or more."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


class SeenNode(NamedTuple):
    """A node of an answer, as it came, with its path and its distance from the root."""

    path: str
    distance: int
    value: Message


def walk_answer(tree: object) -> Iterator[SeenNode]:
    """The nodes of a tree that came, in document order."""
    stack = [("/", 0, tree)]
    while stack:
        path, distance, value = stack.pop()
        if not isinstance(value, dict):
            continue
        yield SeenNode(path, distance, value)
        children = value.get("children")
        if isinstance(children, list):
            stack.extend(
                (f"{path.rstrip('/')}/{child.get('id')}", distance + 1, child)
                for child in reversed(children)
                if isinstance(child, dict)
            )


def paths_of(tree: Node) -> Iterator[tuple[str, Node]]:
    """Go through a tree in document order, each node with its path."""
    stack = [("/", tree)]
    while stack:
        path, node = stack.pop()
        yield path, node
        stack.extend((f"{path.rstrip('/')}/{kid.id}", kid) for kid in reversed(node.children))


def whole_tree() -> Part[Node]:
    """Ask for the whole tree. Raises NotShown where it is refused, or breaks a rule."""
    answer = yield from ask(query("whole"))
    return sound(answer)


def sound(answer: Message) -> Node:
    """Read the tree of a snapshot. Raises NotShown where there is none, or it breaks a rule."""
    if answer.get("type") != "snapshot":
        raise NotShown("it does not show its whole tree")
    try:
        return from_value(answer.get("tree"))
    except InvalidInput as error:
        raise NotShown(f"its tree breaks a rule: {error}") from error
