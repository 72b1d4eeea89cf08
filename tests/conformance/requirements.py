"""Every requirement of the protocol that our code can keep or break, by id.

The sources: *protocol*, the working reference by section; *tree*, the state tree
document; *scaling*, the scaling document. A rule is here whether the source says MUST,
SHOULD or simply how things are. `test_manifest.py` fails when a requirement has no test
and when a test in this directory names none.

`ADVICE` is what the sources recommend to the author of an app about his own data;
nothing of ours can break it, and our SDK and demo follow it where they can.
"""

from __future__ import annotations

REQUIREMENTS: dict[str, str] = {
    # protocol 1, tree: the node
    "node.id-present": "A node has an id, a non-empty string, and a type.",
    "node.id-unique": "No two children of the same parent share an id.",
    "node.id-stable": "The same entity keeps its id; it must not change when properties change.",
    "node.id-reserved": "An id MUST NOT equal a reserved field name.",
    "node.id-characters": "An id MUST NOT contain '/' or '~'.",
    "node.id-foreign": "Ids from external sources MUST be transformed into legal ones.",
    "node.id-error": "An illegal id gets a clear error naming the id and the rule.",
    "node.type-custom": "Custom types should use a namespace prefix.",
    "node.unknown-fields": "Unknown node fields are preserved by a mirror and ignored by logic.",
    "node.meta-unknown": "Unknown meta keys are kept.",
    "node.lazy": "Children absent or null with total_children > 0 exist: ask for them.",
    # protocol 2: paths
    "path.root": "'/' or the empty path is the root of a request.",
    "path.patch-relative": "Patch paths are relative to the subscription's root.",
    "path.field-wins": "A reserved segment enters the field and wins over a child id.",
    "path.pointer": "Inside a field the rest is JSON Pointer; ids are never escaped.",
    # protocol 3: affordances
    "invoke.node-exists": "An invoke on a node that is gone fails with not_found.",
    "invoke.still-exposed": "An invoke of an action not exposed now fails with not_found.",
    # protocol 4: messages
    "hello.first": "hello is the first message, once.",
    "subscribe.snapshot": "subscribe is answered by a snapshot with seq 0, then patches.",
    "subscribe.id-unique": "A duplicate subscription id MUST be refused; the first lives on.",
    "unsubscribe.silent": "unsubscribe has no reply and ends the patches.",
    "query.answer": "query is answered by one snapshot without seq.",
    "invoke.result": "invoke is answered by exactly one result.",
    "event.out-of-band": "An event carries a name and data, and is never state.",
    "error.anything-else": "Anything but an invoke is answered with error, with its id.",
    "batch.order": "Consumers unwrap a batch in order.",
    "malformed.answered": "What is malformed gets bad_request, and the connection lives on.",
    "consumer.unknown-type": "A consumer ignores message types it does not know.",
    "capability.honest": "What is not declared is answered with not_supported.",
    "version.monotonic": "Every change that yields patches increments version.",
    "seq.counts": "seq is 0 on the snapshot, then +1 per patch.",
    "gap.resubscribe": "A consumer that sees a gap in seq MUST resubscribe.",
    "gap.drop-old": "It MUST drop patches whose version is not beyond the fresh snapshot's.",
    "rebase.snapshot": "A provider that must skip sends a fresh snapshot with seq 0.",
    "order.patches-before-result": "Changes made by a handler are sent before its result.",
    "ops.exact": "A diff MUST reproduce the new tree exactly, order included.",
    "ops.null": "A missing value and null are different things.",
    "ops.move": "The index of a move is the position after removal.",
    "change.coalesced": "Rapid changes are one patch per subscription.",
    "change.none": "With nothing changed, nothing is sent.",
    # protocol 5, tree: what a subscriber sees
    "view.filter": "Less salient nodes and other types are dropped with their subtrees.",
    "view.filter-default": "Absent salience counts as 0.5.",
    "view.filter-root": "The requested root is never dropped.",
    "view.depth": "Depth N resolves N levels; 0 is the node alone, -1 all.",
    "view.depth-leaf": "A leaf at the limit stays whole.",
    "view.stub": "A depth stub is id, type and meta only, with total_children.",
    "view.compacted": "A compacted node keeps properties, affordances and meta, no children.",
    "view.not-blurred": "Providers MUST NOT blur the two shapes.",
    "view.compact-spares": "The root, its children and what is pinned are never collapsed.",
    "view.window": "A window slices children and sets window and total_children.",
    "view.crossing": "A node that crosses the threshold is added or removed by a patch.",
    "view.max-nodes-live": "max_nodes holds on every patch cycle.",
    # protocol 6, tree: the canonical text
    "text.canonical": "Consumers SHOULD use the canonical format.",
    "text.one-line": "One node is exactly one line, whatever its text says.",
    # protocol 7: transports, discovery, security
    "transport.frame": "WebSocket: one message per text frame, default path /slop.",
    "transport.lines": "Unix socket and stdio: newline-delimited JSON.",
    "transport.stdio-fds": "stdio prefers fd 3 out and fd 4 in, else stdout and stdin.",
    "discovery.atomic": "A descriptor is created atomically at start and removed at stop.",
    "discovery.stale": "A dead pid makes a descriptor stale.",
    "discovery.both": "Consumers watch both directories and rescan as a fallback.",
    "security.socket-mode": "Unix sockets are 0600 in a 0700 directory.",
    "security.loopback": "WebSocket binds loopback by default; anything else needs a token.",
    "security.origin": "WebSocket checks Origin and Host.",
    "security.ownership": "A descriptor of another user, or one others could write, is ignored.",
    "security.consent": "A stdio descriptor is never spawned without the user's consent.",
    # protocol 8: extensions
    "resume.continues": "x-resume: the missed patches continue at seq + 1.",
    "resume.empty": "x-resume: one patch with empty ops if nothing was missed.",
    "resume.snapshot": "x-resume: a snapshot where the provider cannot.",
    "pause.rests": "x-pause: a paused subscription gets nothing until it is resumed.",
    "retain.ancestors": "x-retain: what leads to a kept node is kept.",
    "hint.actions": "x-actions-hint: available_actions on stubs.",
    "served.said": "x-served: a snapshot says what was really applied.",
    # scaling
    "scaling.patch-navigation": "Navigation is told by patches, not by a full snapshot.",
    "scaling.scopes": "A consumer can hold several subscriptions at different scopes.",
    "scaling.lookup": "Actions are looked for upward: the node, its parents, the root.",
    "scaling.context": "Context is inherited from the context nodes on the way up.",
    "scaling.other-window": "A query of another window leaves the subscription as it is.",
    "scaling.lazy-query": "A lazy subtree is loaded by a query of its path.",
    "scaling.no-retention": "Without ancestor retention a dropped parent takes all below it.",
}

ADVICE: dict[str, str] = {
    "scaling.views": "Structure the tree around views; keep the root small.",
    "scaling.summaries": "Summarize what you collapse, in under 100 characters, and keep it fresh.",
    "scaling.inline": "Large collections should never be fully inlined: window them.",
    "scaling.parents": "A parent should be at least as salient as its most important child.",
    "scaling.levels": "Place affordances at the level that they operate on.",
    "scaling.salience": "Update salience with what the user is doing.",
    "scaling.sessions": "Scope trees per session in apps with several users.",
    "tree.properties": "Properties should be flat or shallow.",
}
