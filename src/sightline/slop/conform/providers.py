"""What can be tried of a provider: its conversation, and its views held against its tree. Pure.

Nothing of the provider's is done: what is invoked are a node and an action that no app has, and,
unless it is only to be looked at, one action of its own that is not dangerous, with params
that its schema forbids. One action that may really run can be named (`TrialTarget.act`).

A view and the tree are of one state where the tree is the same before and after it was asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from sightline.errors import InvalidInput, InvalidPatch, Violation
from sightline.slop.conform.trial import (
    NO_ACTION,
    NOWHERE,
    Message,
    NotShown,
    Part,
    Say,
    SeenNode,
    Trial,
    TrialTarget,
    Verdict,
    answers,
    ask,
    before_answer,
    code_of,
    is_count,
    is_error,
    paths_of,
    query,
    sound,
    tries,
    walk_answer,
    where,
    whole_tree,
)
from sightline.slop.protocol.codec import from_value
from sightline.slop.protocol.patch import apply, ops_from_value
from sightline.slop.protocol.rules import violations
from sightline.slop.protocol.tree import Node
from sightline.slop.protocol.view import View, project

_TRIES: Final = 3
# Tenths of salience that are asked for.
_LEVELS: Final = (2, 5, 6, 10)
_PUBLIC_CAPABILITIES: Final = frozenset(
    {"state", "patches", "affordances", "attention", "windowing", "async", "content_refs"}
)


@tries("hello.first", "hello.fields", "capability.state")
def greeting(target: TrialTarget) -> Trial:
    """Look at the first message, and that no other is a hello."""
    later = yield from before_answer()
    about = target.about
    first = target.hello.get("type") == "hello"
    again = any(message.get("type") == "hello" for message in later)
    texts = all(isinstance(about.get(name), str) for name in ("id", "name", "slop_version"))
    names = about.get("capabilities")
    listed = isinstance(names, list) and all(isinstance(name, str) for name in names)
    foreign = [
        name
        for name in (names if isinstance(names, list) and listed else ())
        if name not in _PUBLIC_CAPABILITIES and not name.startswith("x-")
    ]
    return [
        Verdict(
            "hello.first", first and not again, "" if first else "the first message is another"
        ),
        Verdict("hello.fields", texts and listed),
        Verdict("capability.state", target.offers("state") and not foreign, ", ".join(foreign)),
    ]


@tries("subscribe.snapshot", "subscribe.defaults", "path.root")
def subscribing(target: TrialTarget) -> Trial:
    """Subscribe to the root under its two names."""
    target.must_offer("patches")
    one = yield from ask({"type": "subscribe", "id": "a"})
    other = yield from ask({"type": "subscribe", "id": "b", "path": "", "depth": -1})
    are = [message.get("type") == "snapshot" for message in (one, other)]
    begun = all(are) and one.get("seq") == other.get("seq") == 0
    counted = is_count(one.get("version"))
    same = None
    if all(are) and one.get("version") == other.get("version"):
        same = one.get("tree") == other.get("tree")
    return [
        Verdict("subscribe.snapshot", begun and counted),
        Verdict("subscribe.defaults", same, "the state changed between" if same is None else ""),
        Verdict("path.root", all(are) and same is not False),
    ]


@tries("subscribe.id-unique")
def subscribing_twice(target: TrialTarget) -> Trial:
    """Use the id of a live subscription again."""
    target.must_offer("patches")
    yield from ask({"type": "subscribe", "id": "twin"})
    heard = yield from before_answer({"type": "subscribe", "id": "twin", "depth": 0})
    refused = any(is_error(message, "twin", "bad_request") for message in heard)
    served = any(message.get("type") == "snapshot" for message in heard)
    return [Verdict("subscribe.id-unique", refused and not served)]


@tries("unsubscribe.silent")
def unsubscribing(target: TrialTarget) -> Trial:
    """End a subscription, and one that there never was."""
    target.must_offer("patches")
    yield from ask({"type": "subscribe", "id": "a"})
    heard = yield from before_answer({"type": "unsubscribe", "id": "a"})
    answered = [message for message in heard if message.get("type") != "patch"]
    return [Verdict("unsubscribe.silent", not answered)]


@tries("query.answer")
def querying(_: TrialTarget) -> Trial:
    """Send one query, and see that one snapshot answers it."""
    answer = yield from ask(query("q"))
    later = yield from before_answer()
    is_one = answer.get("type") == "snapshot" and "seq" not in answer and "tree" in answer
    again = any(message.get("id") == "q" for message in later)
    return [Verdict("query.answer", is_one and not again and is_count(answer.get("version")))]


@tries("error.anything-else", "invoke.node-exists", "invoke.still-exposed", "invoke.result")
def asking_for_what_is_not_there(target: TrialTarget) -> Trial:
    """Ask for a node and an action that no app has."""
    lost = yield from ask(query("lost", path=NOWHERE))
    held = [Verdict("error.anything-else", is_error(lost, "lost", "not_found"))]
    if not target.offers("affordances") or target.look_only:
        unseen = ("invoke.node-exists", "invoke.still-exposed", "invoke.result")
        return [*held, *(Verdict(clause, None, "nothing was invoked") for clause in unseen)]
    invokes = [
        {"type": "invoke", "id": "node", "path": NOWHERE, "action": NO_ACTION},
        {"type": "invoke", "id": "action", "path": "/", "action": NO_ACTION},
    ]
    results = [(yield from ask(invokes[0])), (yield from ask(invokes[1]))]
    later = yield from before_answer()
    for clause, result in zip(("invoke.node-exists", "invoke.still-exposed"), results, strict=True):
        refused = (result.get("status"), code_of(result)) == ("error", "not_found")
        held.append(Verdict(clause, refused))
    once = all(result.get("type") == "result" for result in results)
    again = any(message.get("id") in {"node", "action"} for message in later)
    return [*held, Verdict("invoke.result", once and not again)]


@tries("invoke.params")
def giving_wrong_params(target: TrialTarget) -> Trial:
    """Give one action that is not dangerous what its schema forbids, in every required param."""
    target.must_offer("affordances")
    if target.look_only:
        raise NotShown("nothing was invoked")
    tree = yield from whole_tree()
    path, action, params = next(_wrong_calls(tree), ("", "", {}))
    if not action:
        raise NotShown("no harmless action has a required param with a type")
    result = yield from ask(
        {"type": "invoke", "id": "wrong", "path": path, "action": action, "params": params}
    )
    refused = (result.get("status"), code_of(result)) == ("error", "invalid_params")
    error = result.get("error")
    reason = str(error.get("message")) if isinstance(error, dict) else ""
    named = any(name in reason for name in params)
    return [Verdict("invoke.params", refused and named, "" if named else "no param is named")]


def _wrong_calls(tree: Node) -> Iterator[tuple[str, str, Message]]:
    for path, node in paths_of(tree):
        for item in node.affordances:
            schema = item.params if isinstance(item.params, dict) else {}
            declared, required = schema.get("properties"), schema.get("required")
            if item.dangerous or not isinstance(declared, dict) or not isinstance(required, list):
                continue
            kinds = {name: declared.get(name) for name in required if isinstance(name, str)}
            typed = {
                name: kind["type"]
                for name, kind in kinds.items()
                if isinstance(kind, dict) and isinstance(kind.get("type"), str)
            }
            if typed and len(typed) == len(required):
                wrong = {name: _of_another_type(kind) for name, kind in typed.items()}
                yield path, item.action, wrong


def _of_another_type(kind: str) -> object:
    return ["sightline-conform"] if kind != "array" else "sightline-conform"


MALFORMED: Final[tuple[Message | bytes, ...]] = (
    b"{",
    b"[]",
    b'"query"',
    {"id": "m"},
    {"type": 7},
    {"type": "sightline-conform-no-such-type", "id": "m"},
    {"type": "query"},
    {"type": "query", "id": "m", "path": 7},
    {"type": "query", "id": "m", "depth": "all"},
    {"type": "subscribe", "id": 7},
    {"type": "invoke", "id": "m", "path": "/"},
)


@tries("malformed.answered")
def sending_rubbish(_: TrialTarget) -> Trial:
    """Send what cannot be understood, and see whether the connection lives on."""
    missed = 0
    for rubbish in MALFORMED:
        heard = yield from before_answer(rubbish)
        if not any((m.get("type"), code_of(m)) == ("error", "bad_request") for m in heard):
            missed += 1
    why = f"{missed} of {len(MALFORMED)} got no bad_request" if missed else ""
    return [Verdict("malformed.answered", not missed, why)]


_TREE_CLAUSES: Final = (
    "node.id-present", "node.id-unique", "node.id-reserved", "node.id-characters",
    "node.meta-rules", "node.values", "affordance.rules", "affordance.unique", "content.ref",
)  # fmt: skip


@tries(*_TREE_CLAUSES)
def reading_the_tree(_: TrialTarget) -> Trial:
    """Check every node of the tree that it shows."""
    answer = yield from ask(query("whole"))
    if answer.get("type") != "snapshot":
        raise NotShown("it does not show its whole tree")
    broken: dict[str, Violation] = {}
    for violation in violations(answer.get("tree")):
        broken.setdefault(_clause_of(violation), violation)
    verdicts = []
    for clause in _TREE_CLAUSES:
        why = str(broken[clause])[:200] if clause in broken else ""
        verdicts.append(Verdict(clause, clause not in broken, why))
    return verdicts


def _clause_of(violation: Violation) -> str:
    path, rule = violation.path, violation.rule
    for word, clause in (
        ("unique among siblings", "node.id-unique"),
        ("reserved field name", "node.id-reserved"),
        ("'/' or '~'", "node.id-characters"),
        ("unique on its node", "affordance.unique"),
    ):
        if word in rule:
            return clause
    if path.endswith(("/id", "/type")) or rule.startswith("a node must have"):
        return "node.id-present"
    for field_name, clause in (
        ("meta", "node.meta-rules"),
        ("affordances", "affordance.rules"),
        ("content_ref", "content.ref"),
    ):
        if f"/{field_name}" in path:
            return clause
    return "node.values"


@tries("scaling.scopes")
def watching_two_scopes(target: TrialTarget) -> Trial:
    """Hold two subscriptions of different scope at once."""
    target.must_offer("patches")
    tree = yield from whole_tree()
    if not tree.children:
        raise NotShown("the tree is one node")
    child_id = tree.children[0].id
    over = yield from ask({"type": "subscribe", "id": "over", "path": "/", "depth": 0})
    into = yield from ask({"type": "subscribe", "id": "into", "path": f"/{child_id}"})
    roots = [
        message["tree"].get("id") if isinstance(message.get("tree"), dict) else None
        for message in (over, into)
    ]
    return [Verdict("scaling.scopes", roots == [tree.id, child_id])]


_UNDECLARED: Final[Mapping[str, Message]] = {
    "patches": {"type": "subscribe", "id": "x"},
    "attention": {"type": "query", "id": "x", "filter": {"min_salience": 0.5}},
    "windowing": {"type": "query", "id": "x", "window": [0, 1]},
    "affordances": {"type": "invoke", "id": "x", "path": "/", "action": NO_ACTION},
}


@tries("capability.honest")
def asking_for_what_is_not_declared(target: TrialTarget) -> Trial:
    """Ask for everything that it does not say that it can."""
    missing = [name for name in _UNDECLARED if not target.offers(name)]
    if not missing:
        raise NotShown("it declares everything that can be asked for")
    wrong: list[str] = []
    for name in missing:
        answer = yield from ask(_UNDECLARED[name])
        if code_of(answer) != "not_supported":
            wrong.append(name)
    return [Verdict("capability.honest", not wrong, ", ".join(wrong))]


@tries("resume.epoch", "resume.empty", "resume.snapshot")
def resuming(target: TrialTarget) -> Trial:
    """End a subscription and come back to it, and to one of another life."""
    target.must_offer("x-resume")
    epoch = target.about.get("epoch")
    verdicts = [Verdict("resume.epoch", isinstance(epoch, str) and epoch != "")]
    snapshot = yield from ask({"type": "subscribe", "id": "r"})
    point = {"epoch": epoch, "version": snapshot.get("version"), "seq": 4}
    heard = yield Say(
        ({"type": "unsubscribe", "id": "r"}, {"type": "subscribe", "id": "r", "resume": point}),
        lambda message: "r" in (message.get("id"), message.get("subscription")),
    )
    last = heard[-1]
    goes_on = last.get("type") == "patch" and last.get("seq") == 5
    same = last.get("version") == snapshot.get("version")
    empty = goes_on and (last.get("ops") == [] or not same)
    verdicts.append(Verdict("resume.empty", empty))
    other = {**point, "epoch": "sightline-conform"}
    fresh = yield from ask({"type": "subscribe", "id": "other", "resume": other})
    anew = (fresh.get("type"), fresh.get("seq")) == ("snapshot", 0)
    return [*verdicts, Verdict("resume.snapshot", anew)]


@tries(
    "order.patches-before-result", "order.within", "seq.counts", "version.monotonic", "ops.exact",
    "base.said", "change.none",
)  # fmt: skip
def acting(target: TrialTarget) -> Trial:
    """Invoke the action that was named, twice, and follow what it changes."""
    if target.act is None:
        raise NotShown("no action was named that may run")
    target.must_offer("patches")
    path, action = target.act
    invoke = {"type": "invoke", "path": path, "action": action, "params": target.params}
    [*early, first] = yield Say(({"type": "subscribe", "id": "s"},), answers("s"))
    tree = sound(first)
    patches = _patches((yield from before_answer()))
    before_result = True
    for request_id in ("one", "two"):
        heard = yield Say(({**invoke, "id": request_id},), answers(request_id))
        if heard[-1].get("status") == "error":
            raise NotShown(f"the action was refused: {code_of(heard[-1])}")
        later = yield from before_answer()
        before_result = before_result and not _patches(later)
        patches += _patches(heard) + _patches(later)
    if not patches:
        raise NotShown("the action changes nothing that is shown")
    whole = yield from ask(query("after"))
    steps = [first, *patches]
    seqs = [step.get("seq") for step in steps]
    versions = [step.get("version") for step in steps]
    follows = [patch.get("base") for patch in patches] == versions[:-1]
    return [
        Verdict("order.patches-before-result", before_result),
        Verdict("order.within", not _patches(early) and _rising(seqs)),
        Verdict("seq.counts", seqs == list(range(len(steps)))),
        Verdict("version.monotonic", _rising(versions)),
        Verdict("ops.exact", *_followed(tree, patches, whole)),
        where(target.offers("x-base"), "base.said", follows, "x-base is not declared"),
        Verdict("change.none", all(patch.get("ops") for patch in patches)),
    ]


def _rising(counts: list[Any]) -> bool:
    return all(map(is_count, counts)) and counts == sorted(set(counts))


def _patches(messages: list[Message]) -> list[Message]:
    return [message for message in messages if message.get("subscription") == "s"]


def _followed(tree: Node, patches: list[Message], whole: Message) -> tuple[bool | None, str]:
    """Tell whether the patches lead from a tree to the one that was asked for afterwards."""
    if whole.get("version") != patches[-1].get("version"):
        return None, "the state changed meanwhile"
    try:
        for patch in patches:
            tree = apply(tree, ops_from_value(patch.get("ops")))
    except InvalidPatch as error:
        return False, str(error)
    return tree == sound(whole), ""


def _view_of(views: Mapping[str, Message], tree: Node) -> Part[dict[str, list[SeenNode]] | None]:
    """Ask for views of a tree; None if they are of another version of it."""
    found: dict[str, list[SeenNode]] = {}
    for name, options in views.items():
        answer = yield from ask(query(name, **options))
        if answer.get("type") != "snapshot":
            raise NotShown(f"a query is refused: {code_of(answer)}")
        found[name] = list(walk_answer(answer.get("tree")))
    again = yield from whole_tree()
    return found if again == tree else None


def _views(
    choose: Callable[[Node], Mapping[str, Message]],
) -> Part[tuple[Node, Mapping[str, Message], dict[str, list[SeenNode]]]]:
    """Ask for views of one state of the app: between two equal answers it did not change.

    Returns the whole tree, the views that were chosen, and what was shown of each.
    """
    for _ in range(_TRIES):
        tree = yield from whole_tree()
        views = choose(tree)
        found = yield from _view_of(views, tree)
        if found is not None:
            return tree, views, found
    raise NotShown("the state changes faster than it can be asked for")


def _shows(seen: list[SeenNode], tree: Node, view: View) -> bool:
    """Tell whether an answer has the nodes that a view of a tree has, in their order."""
    return [node.path for node in seen] == _shown_paths(tree, view)


def _shown_paths(tree: Node, view: View) -> list[str]:
    return [path for path, _ in paths_of(project(tree, view))]


def _filled(value: Message) -> set[str]:
    """The fields of a node that say something; deployed peers send empty ones."""
    return {name for name, member in value.items() if member not in (None, [], {})}


def _meta(value: Message) -> Message:
    meta = value.get("meta")
    return meta if isinstance(meta, dict) else {}


@tries("view.depth", "view.depth-leaf", "view.stub", "scaling.summary", "scaling.actions-on-stubs")
def asking_for_depth(_: TrialTarget) -> Trial:
    """Compare what is shown at some depths with the whole."""

    def choose(tree: Node) -> dict[str, Message]:
        if not any(child.children for child in tree.children):
            raise NotShown("the tree has fewer than three levels")
        rich = [child.id for child in tree.children if child.children and child.affordances]
        inner = {f"in {child_id}": {"path": f"/{child_id}"} for child_id in rich[:1]}
        return {**{f"d{depth}": {"depth": depth} for depth in range(3)}, **inner}

    tree, _options, found = yield from _views(choose)
    deep = all(_shows(found[f"d{depth}"], tree, View(depth=depth)) for depth in range(3))
    nodes = dict(paths_of(tree))
    stubs: list[SeenNode] = []
    leaves: list[SeenNode] = []
    for depth in range(3):
        for seen in found[f"d{depth}"]:
            if seen.distance == depth and seen.path in nodes:
                (stubs if nodes[seen.path].children else leaves).append(seen)
    bare = all(
        _filled(seen.value) <= {"id", "type", "meta"}
        and _meta(seen.value).get("total_children") is not None
        for seen in stubs
    )
    kept = [seen for seen in stubs if nodes[seen.path].meta.summary]
    summarized = all(_meta(s.value).get("summary") == nodes[s.path].meta.summary for s in kept)
    whole = all(_is_whole(seen.value, nodes[seen.path]) for seen in leaves)
    opened = [shown[0].value for name, shown in found.items() if name.startswith("in ") and shown]
    open_again = all(value.get("affordances") for value in opened)
    quiet = not any(seen.value.get("affordances") for seen in stubs)
    return [
        Verdict("view.depth", deep),
        where(leaves, "view.depth-leaf", whole, "no leaf there"),
        Verdict("view.stub", bare),
        where(kept, "scaling.summary", summarized, "no stub had a summary"),
        where(opened, "scaling.actions-on-stubs", quiet and open_again, "no stub has actions"),
    ]


def _is_whole(value: Message, node: Node) -> bool:
    try:
        shown = from_value(value)
    except InvalidInput:
        return False
    actions = [item.action for item in node.affordances]
    return shown.properties == node.properties and actions == [i.action for i in shown.affordances]


@tries("view.compacted", "view.compact-spares", "view.compact-score", "view.not-blurred")
def asking_for_few_nodes(_: TrialTarget) -> Trial:
    """Ask for fewer nodes than there are."""

    def choose(tree: Node) -> dict[str, Message]:
        count = sum(1 for _ in tree.walk())
        least = len(_shown_paths(tree, View(max_nodes=1)))
        if least == count:
            raise NotShown("nothing in the tree may be collapsed")
        return {"least": {"max_nodes": least}, "between": {"max_nodes": (least + count) // 2}}

    tree, views, found = yield from _views(choose)
    nodes = dict(paths_of(tree))
    collapsed = [
        seen
        for seen in found["least"]
        if seen.path in nodes and nodes[seen.path].children and not seen.value.get("children")
    ]
    shapes = [_is_compacted(seen.value, nodes[seen.path]) for seen in collapsed]
    shown = {seen.path for seen in found["least"]}
    spared = all(f"/{child.id}" in shown for child in tree.children)
    pinned = all(path in shown for path, node in nodes.items() if node.meta.pinned)
    scored = all(_shows(found[name], tree, View(**wanted)) for name, wanted in views.items())
    originals = [nodes[seen.path] for seen in collapsed]
    rich = [node for node in originals if node.properties or node.affordances]
    return [
        Verdict("view.compacted", bool(shapes) and all(shapes)),
        Verdict("view.compact-spares", spared and pinned),
        Verdict("view.compact-score", scored),
        where(rich, "view.not-blurred", all(shapes), "what is collapsed has no properties"),
    ]


def _is_compacted(value: Message, node: Node) -> bool:
    meta = _meta(value)
    counted = is_count(meta.get("total_children")) and isinstance(meta.get("summary"), str)
    return counted and _is_whole(value, node) and "content_ref" not in _filled(value)


@tries("view.filter", "view.filter-default", "view.filter-root")
def filtering(target: TrialTarget) -> Trial:
    """Ask for what is salient, and for some types."""
    target.must_offer("attention")

    def choose(tree: Node) -> dict[str, Message]:
        if not tree.children:
            raise NotShown("the tree is one node")
        levels = {f"s{n}": {"min_salience": n / 10} for n in _LEVELS}
        types: Message = {"types": [tree.children[0].type]}
        return {name: {"filter": wanted} for name, wanted in {**levels, "types": types}.items()}

    tree, _options, found = yield from _views(choose)
    right = {f"s{n}": _shows(found[f"s{n}"], tree, View(min_salience=n / 10)) for n in _LEVELS}
    kinds = frozenset({tree.children[0].type})
    right["types"] = _shows(found["types"], tree, View(types=kinds))
    plain = any(child.meta.salience is None for child in tree.children)
    default = right["s5"] and right["s6"]
    return [
        Verdict("view.filter", all(right.values())),
        where(plain, "view.filter-default", default, "every node has its salience"),
        Verdict("view.filter-root", all(found.values())),
    ]


@tries("view.window")
def asking_for_a_window(target: TrialTarget) -> Trial:
    """Ask for the second child of a node that has two."""
    target.must_offer("windowing")

    def choose(tree: Node) -> dict[str, Message]:
        wide = [path for path, node in paths_of(tree) if _can_be_cut(node)]
        if not wide:
            raise NotShown("no node has two children")
        return {"w": {"path": wide[-1], "window": [1, 1]}}

    tree, views, found = yield from _views(choose)
    node = tree.at(views["w"]["path"])
    [root, *below] = found["w"]
    meta = _meta(root.value)
    near = [seen.value.get("id") for seen in below if seen.distance == 1]
    cut = (near, meta.get("window"), meta.get("total_children"))
    held = cut == ([node.children[1].id], [1, 1], node.total_children)
    return [Verdict("view.window", held)]


def _can_be_cut(node: Node) -> bool:
    return len(node.children) > 1 and node.meta.window is None


@tries("retain.ancestors")
def retaining(target: TrialTarget) -> Trial:
    """Filter with and without the ancestors of what passes."""
    target.must_offer("x-retain")

    def choose(tree: Node) -> dict[str, Message]:
        for level in sorted({node.meta.salience or 0.0 for node in tree.walk()}):
            kept = [View(min_salience=level, retain_ancestors=r) for r in (True, False)]
            if _shown_paths(tree, kept[0]) != _shown_paths(tree, kept[1]):
                return {"r": {"filter": {"min_salience": level, "retain_ancestors": True}}}
        raise NotShown("no node is more salient than its parent")

    tree, views, found = yield from _views(choose)
    view = View(**views["r"]["filter"])
    return [Verdict("retain.ancestors", _shows(found["r"], tree, view))]


@tries("hint.actions")
def looking_for_hints(target: TrialTarget) -> Trial:
    """Ask for the stub of a node that has actions."""
    target.must_offer("x-actions-hint")

    def choose(tree: Node) -> dict[str, Message]:
        rich = [path for path, node in paths_of(tree) if node.children and node.affordances]
        if not rich:
            raise NotShown("no node has both children and actions")
        return {"h": {"path": rich[0], "depth": 0}}

    tree, views, found = yield from _views(choose)
    names = [item.action for item in tree.at(views["h"]["path"]).affordances]
    hinted = _meta(found["h"][0].value).get("available_actions")
    return [Verdict("hint.actions", hinted == names)]


PROVIDER_TRIALS: Final = (
    greeting,
    subscribing,
    subscribing_twice,
    unsubscribing,
    querying,
    asking_for_what_is_not_there,
    giving_wrong_params,
    sending_rubbish,
    reading_the_tree,
    watching_two_scopes,
    asking_for_what_is_not_declared,
    resuming,
    acting,
    asking_for_depth,
    asking_for_few_nodes,
    filtering,
    asking_for_a_window,
    retaining,
    looking_for_hints,
)
