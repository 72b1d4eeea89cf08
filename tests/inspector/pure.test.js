// The modules of the page that need no browser.
import assert from "node:assert/strict";
import { test } from "node:test";
import { filterFor, matching } from "app/commands";
import { differencesOf, hunksOf, pathOf, totalsOf } from "app/differences";
import { admitted } from "app/filters";
import { Folds } from "app/folds";
import { count, dollars, html, seconds, share } from "app/html";
import { colourOf, rowsOf, sumOf } from "app/map";
import { doing, stepsOf } from "app/steps";
import { isNothing, sideBySide, wishesOf } from "app/wishes";

// A tree by the depths of its lines, and how many lines are below each.
const DEPTHS = [0, 1, 2, 3, 2, 1, 2, 2, 1];
const below = (line) => {
  const end = DEPTHS.findIndex((depth, at) => at > line && depth <= DEPTHS[line]);
  return (end < 0 ? DEPTHS.length : end) - line - 1;
};

test("whatever is folded, rows and lines find each other, and only what is below is hidden", () => {
  for (let chosen = 0; chosen < 1 << DEPTHS.length; chosen += 1) {
    const lines = DEPTHS.map((_, line) => line);
    const folded = new Map(lines.filter((l) => chosen & (1 << l)).map((l) => [l, below(l)]));
    const hidden = (l) => [...folded].some(([own, many]) => l > own && l <= own + many);
    const seen = lines.filter((line) => !hidden(line));
    const folds = new Folds(DEPTHS.length, folded);
    assert.equal(folds.count, seen.length);
    assert.deepEqual(
      seen.map((_, row) => folds.lineAt(row)),
      seen,
    );
    for (const line of lines) {
      assert.equal(folds.rowOf(line), seen.indexOf(line));
      assert.notEqual(folds.reveal(line).rowOf(line), -1);
    }
  }
});

test("a figure that nobody knows is never a zero", () => {
  assert.deepEqual(
    [count(null), share(0, 0), dollars(null), seconds(undefined)],
    ["–", "–", "unknown", "–"],
  );
  assert.deepEqual(
    [count(0), share(1, 3), dollars(0.0042), seconds(1499)],
    ["0", "33\u00a0%", "$0.0042", "1.5 s"],
  );
});

test("a time is written in the units that people use for so much", () => {
  const written = [999, 59_900, 125_000, 3_600_000, 360_000_000].map(seconds);
  assert.deepEqual(written, ["999 ms", "59.9 s", "2 m 5 s", "1 h 0 m", "100 h 0 m"]);
});

test("an amount is written to a hundredth of a cent, and what is less is not free", () => {
  const written = [0, 0.00001, 0.0187, 0.99, 12.345].map((usd) => dollars(usd));
  assert.deepEqual(written, ["$0", "under $0.0001", "$0.0187", "$0.99", "$12.35"]);
});

test("rows of the map add up to the prompt, and have what the server counted as before", () => {
  for (const [overhead, tools, total] of [
    [3, 40, 143],
    [0, 0, 100],
    [1, 2, 200],
  ]) {
    const slots = [
      { name: "system", offered: 70, kept: 70, cut: 0 },
      { name: "state", offered: 90, kept: 30, cut: 60 },
    ];
    const rows = rowsOf({ overhead, tools, total, slots }, { system: [70, 50], state: [12, 0] });
    assert.equal(sumOf(rows, "kept"), total);
    const asBefore = rows.map(({ name, same, reusable }) => [name, same, reusable]);
    assert.deepEqual(
      asBefore.filter(([, same]) => same),
      [
        ["system", 70, 50],
        ["state", 12, 0],
      ],
    );
    assert.ok(rows.every((row) => row.offered === row.kept + row.cut));
  }
});

test("a name has its colour wherever it stands", () => {
  const names = ["system", "history", "state", "my own slot"];
  assert.deepEqual(names.map(colourOf), names.toReversed().map(colourOf).toReversed());
  assert.equal(new Set(names.map(colourOf)).size, names.length);
});

test("a call has its result beside it, or what it waits for", () => {
  const call = (id) => ({ kind: "call", id, name: id, text: `${id}({"n":12345678901234567890})` });
  const messages = [
    { role: "user", status: "complete", parts: [{ kind: "text", text: "Go." }] },
    { role: "assistant", status: "tool_call", parts: [call("a"), call("b"), call("c")] },
    { role: "tool", status: "complete", parts: [{ kind: "result", id: "a", text: "done" }] },
  ];
  const steps = stepsOf(messages, { text: "", reasoning: "", calls: { b: "asked" } });
  assert.deepEqual(
    steps.map((step) => [step.who, step.result?.text ?? step.state ?? step.text]),
    [
      ["you", "Go."],
      ["model", "done"],
      ["model", "waiting for your approval"],
      ["model", "no result"],
    ],
  );
  assert.equal(steps[1].params, '{"n":12345678901234567890}');
  assert.equal(doing(steps), "waiting for your approval");
  assert.equal(doing(stepsOf(messages.slice(0, 1), null)), "waiting for the model");
  assert.equal(doing(stepsOf([], { text: "So", reasoning: "", calls: {} })), "answering");
});

const TREE = ["[root] app: App", "  [list] inbox: Inbox", "    [item] m1 (n=1)", "  [note] x"];

test("a line of a tree is found by the path of its node", () => {
  const paths = ["/", "/inbox", "/inbox/m1", "/x"];
  assert.deepEqual(
    TREE.map((_, at) => pathOf(TREE, at)),
    paths,
  );
  assert.equal(pathOf(["<state>", ...TREE], 0), "");
});

test("what hunks keep and remove is of the old text, what they keep and add of the new", () => {
  const now = TREE.with(2, "    [item] m1 (n=2)").toSpliced(3, 1, "  [note] y", "  [note] z");
  const texts = [TREE, now, [], TREE.slice(1), ["a b c", "d"], Array(3_000).fill("x")];
  for (const before of texts)
    for (const after of texts) {
      const hunks = hunksOf(before.join("\n"), after.join("\n"));
      assert.equal(hunks.length === 0, before === after || before.join() === after.join());
      const all = (unwanted) =>
        hunks.map((hunk) => hunk.pieces.map((p) => (p.kind === unwanted ? "" : p.text)).join(""));
      for (const text of all("added")) assert.ok(before.join("\n").includes(text));
      for (const text of all("removed")) assert.ok(after.join("\n").includes(text));
    }
  const [one, two] = hunksOf(TREE.join("\n"), now.join("\n"));
  assert.equal(two, undefined); // lines beside each other are one place
  assert.equal(one.path, "/inbox/m1");
  assert.deepEqual(
    one.pieces.slice(0, 3).map(({ kind, text }) => [kind, text.trim()]),
    [
      ["same", "[item] m1 (n="],
      ["removed", "1"],
      ["added", "2"],
    ],
  );
});

test("messages are compared slot by slot, and a change of words is no new message", () => {
  const message = (slot, role, text) => ({ slot, role, parts: [{ kind: "text", text }] });
  const request = (tools) => ({ body: JSON.stringify({ tools }) });
  const before = {
    tools: "key",
    request: request([{ name: "a" }]),
    messages: [
      message("history", "user", "one"),
      message("history", "user", "two"),
      message("state", "user", "n is 1"),
    ],
  };
  const after = {
    tools: "key",
    request: request([{ name: "a" }]),
    messages: [
      message("history", "user", "two"),
      message("history", "assistant", "three"),
      message("state", "user", "n is 2"),
    ],
  };
  const slots = differencesOf(before, after);
  assert.deepEqual(totalsOf(slots), { removed: 1, added: 1, changed: 1, moved: 0 });
  assert.deepEqual(
    slots.map((slot) => [slot.name, slot.changes.map((change) => change.kind).join(" ")]),
    [
      ["tools", "same"],
      ["history", "removed same added"],
      ["state", "changed"],
    ],
  );
  const none = { removed: 0, added: 0, changed: 0, moved: 0 };
  assert.deepEqual(totalsOf(differencesOf(after, after)), none);
});

test("a message that stands elsewhere now has moved, and is neither gone nor new", () => {
  const message = (slot, text) => ({ slot, role: "user", parts: [{ kind: "text", text }] });
  const request = { body: "{}" };
  const before = ["tools a", "tools b", "input one"];
  const after = ["tools b", "tools a", "history one", "input two"];
  const asked = (texts) => ({
    request,
    messages: texts.map((text) => message(...text.split(" "))),
  });
  const slots = differencesOf(asked(before), asked(after));
  assert.deepEqual(totalsOf(slots), { removed: 0, added: 1, changed: 0, moved: 2 });
  const told = slots.map(({ name, changes }) => [name, ...changes.map(({ kind }) => kind)]);
  assert.deepEqual(told, [
    ["tools", "same", "moved"],
    ["history", "moved"],
    ["input", "left", "added"],
  ]);
  // Of two that say the same, one moved and the other is gone.
  const alike = differencesOf(asked(["input one", "input one"]), asked(["history one"]));
  assert.deepEqual(totalsOf(alike), { removed: 1, added: 0, changed: 0, moved: 1 });
});

test("wishes are what the address says, and nothing else", () => {
  assert.ok(isNothing(wishesOf({ slot: "state", of: "state", over: "all turns", budget: "" })));
  const wishes = wishesOf({ budget: "0", of: "state", max_ratio: "0.5" });
  assert.deepEqual([wishes.budget, wishes.slots], [0, { state: { max_ratio: 0.5 } }]);
  assert.ok(!isNothing(wishes));
});

test("two prompts side by side add up to both", () => {
  const one = { overhead: 3, tools: 4, slots: [{ name: "a", kept: 5 }] };
  const other = { overhead: 3, tools: 0, slots: [{ name: "b", kept: 7 }] };
  const rows = sideBySide(one, other);
  assert.deepEqual(rows, [
    ["frame", 3, 3],
    ["tools", 4, 0],
    ["a", 5, 0],
    ["b", 0, 7],
  ]);
});

test("a character that turns text round, or that nobody sees, is shown", () => {
  const name = "txt.\u202eexe\u2069 a\u200bb\u{e0041}";
  const shown = "txt.⟨U+202E⟩exe⟨U+2069⟩ a⟨U+200B⟩b⟨U+E0041⟩";
  assert.equal(html`<p>${name}</p>`.props.children, shown);
});

test("what was decided on a call stands with it", () => {
  const call = { kind: "call", id: "a", name: "act", text: "act({})" };
  const [step] = stepsOf([{ role: "assistant", parts: [call] }], null, { a: ["allowed by you"] });
  assert.deepEqual(step.decided, ["allowed by you"]);
});

test("the palette finds what has all the words, best what begins with them", () => {
  const named = (text) => matching(COMMANDS, text).map(({ name }) => name);
  const COMMANDS = ["Last turn", "Not seen", "State", "Restate"].map((name) => ({
    kind: name.includes("turn") ? "action" : "view",
    name,
    run: () => {},
  }));
  assert.deepEqual(named(""), ["Last turn", "Not seen", "State", "Restate"]);
  assert.deepEqual(named("state"), ["State", "Restate"]);
  assert.deepEqual(named("SEEN view"), ["Not seen"]);
  assert.deepEqual(named("nothing like it"), []);
});

test("turns are meant by number, or by words of which none is a term", () => {
  assert.deepEqual([" 12 ", "status:failed", 'say "it"  -- now', ""].map(filterFor), [
    "turn=12",
    '"status:failed"',
    '"say" "it" "now"',
    "",
  ]);
});

test("an export finds turns as the server does", () => {
  const row = { status: "failed", prompt_tokens: 0, cached_tokens: 0, cost_usd: null };
  const TURNS = [
    { row: { ...row, turn: 1, requests: 3, duration_ms: 400 }, words: "Wrong key?" },
    {
      row: {
        turn: 2,
        requests: 1,
        duration_ms: 5_000,
        status: "answered",
        prompt_tokens: 12_000,
        cached_tokens: 3_000,
        cost_usd: 0.2,
      },
      words: "A careful plan",
    },
  ].map((said, at) => ({ ...said, calls: at ? ["roll", "count"] : [], models: ["m:Luna-1"] }));
  const found = (text) => admitted(text, TURNS).turns;
  for (const [text, turns] of [
    ["", [1, 2]],
    ["status:failed", [1]],
    ["-status:failed", [2]],
    ["cache<50%", [2]],
    ["cost>0.1 time>3s tokens>=12k", [2]],
    ["time<500ms", [1]],
    ["requests=3", [1]],
    ["turn=2", [2]],
    ["tool:count model:luna", [2]],
    ['"a CAREFUL" plan', [2]],
  ])
    assert.deepEqual(found(text), turns, text);
  for (const text of ["colour:red", "cost:1", "tokens>many"])
    assert.match(admitted(text, TURNS).problem, /is no filter/);
});
