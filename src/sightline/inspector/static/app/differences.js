// What is different between two requests: by slot, message, path and word. No DOM.
import * as npm from "diff";

// The file that a browser gets exports nothing: it leaves its names in a global one.
const { diffArrays, diffWordsWithSpace } = /** @type {typeof npm} */ (
  "diffArrays" in npm ? npm : /** @type {any} */ (globalThis).Diff
);

const MOST_EDITS = 2_000; // beyond them two texts have nothing to do with each other
const MOST_CHARACTERS = 20_000; // of a block of lines that is compared by words
const NODE = /^(\s*)\[[^\]]*\] ([^\s:(]+)/;

/** @typedef {{ kind: "same" | "removed" | "added", text: string }} Piece */
/** @typedef {{ path: string, pieces: Piece[] }} Hunk */
/** @typedef {{ kind: string, role: string, text: string, hunks?: Hunk[], count?: number }} Change
 */

const textOf = (message) => message.parts.map((part) => part.text).join("\n\n");
// By the server's key: two files of one name are two, a mark for the cache is no difference.
const keyOf = (message) => `${message.role}\0${message.key ?? textOf(message)}`;

// Runs of what is the same, was removed and was added; all of it where there is too much.
const runsOf = (before, after) =>
  diffArrays(before, after, { maxEditLength: MOST_EDITS }) ?? [
    { value: before, removed: true, added: false },
    { value: after, removed: false, added: true },
  ];

/** Where a line of a tree is, as the path of its node; empty for other lines. */
export const pathOf = (lines, at) => {
  const ids = [];
  let depth = Number.POSITIVE_INFINITY;
  for (let line = at; line >= 0 && depth > 0; line -= 1) {
    const found = NODE.exec(lines[line]);
    if (!found && line === at) return "";
    if (!found || found[1].length >= depth) continue;
    depth = found[1].length;
    if (depth > 0) ids.unshift(found[2]);
  }
  return `/${ids.join("/")}`;
};

/** @returns {Piece[]} */
const wordsOf = (old, now) => {
  const whole = [
    { kind: "removed", text: old },
    { kind: "added", text: now },
  ];
  const small = old.length + now.length <= MOST_CHARACTERS;
  const words = small && diffWordsWithSpace(old, now, { maxEditLength: MOST_EDITS });
  const pieces = words
    ? words.map(({ value, added, removed }) => ({
        kind: added ? "added" : removed ? "removed" : "same",
        text: value,
      }))
    : whole;
  return /** @type {Piece[]} */ (pieces.filter(({ text }) => text));
};

/**
 * The places at which two texts differ.
 * @returns {Hunk[]}
 */
export const hunksOf = (old, now) => {
  const [before, after] = [old.split("\n"), now.split("\n")];
  /** @type {Hunk[]} */
  const hunks = [];
  let [line, gone] = [0, /** @type {string[]} */ ([])];
  let wasAt = 0;
  const close = (added) => {
    if (gone.length + added.length === 0) return;
    const path = added.length ? pathOf(after, line) : pathOf(before, wasAt - gone.length);
    hunks.push({ path, pieces: wordsOf(gone.join("\n"), added.join("\n")) });
    gone = [];
  };
  for (const { value, removed, added } of runsOf(before, after)) {
    if (removed) {
      gone = value;
      wasAt += value.length;
    } else {
      close(added ? value : []);
      line += value.length;
      if (!added) wasAt += value.length;
    }
  }
  close([]);
  return hunks;
};

/** @returns {Change[]} */
const pairsOf = (removed, added) => {
  const pairs = Math.min(removed.length, added.length);
  const changed = added.slice(0, pairs).map((message, at) => {
    const old = removed[at];
    if (old.role !== message.role) return [one("removed", old), one("added", message)];
    const hunks = hunksOf(textOf(old), textOf(message));
    return [{ kind: "changed", role: message.role, text: "", hunks }];
  });
  const rest = [
    ...removed.slice(pairs).map((message) => one("removed", message)),
    ...added.slice(pairs).map((message) => one("added", message)),
  ];
  return [...changed.flat(), ...rest];
};

const one = (kind, message) => ({ kind, role: message.role, text: textOf(message) });

/** @typedef {{ kind: string, messages: any[] }} Run */

/** @returns {Run[]} */
const messageRuns = (before, after) => {
  const messages = new Map([...before, ...after].map((message) => [keyOf(message), message]));
  return runsOf(before.map(keyOf), after.map(keyOf)).map(({ value, removed, added }) => ({
    kind: removed ? "removed" : added ? "added" : "same",
    messages: value.map((key) => messages.get(key)),
  }));
};

const countedKeys = (runs, kind) => {
  const counts = new Map();
  for (const run of runs.filter((run) => run.kind === kind))
    for (const key of run.messages.map(keyOf)) counts.set(key, (counts.get(key) ?? 0) + 1);
  return counts;
};

/**
 * Tells once for each message that left one place and came to another that it did.
 * @param {Run[]} runs of all slots
 */
const movesAmong = (runs) => {
  const [left, came] = [countedKeys(runs, "removed"), countedKeys(runs, "added")];
  for (const [key, count] of left) left.set(key, Math.min(count, came.get(key) ?? 0));
  const moves = { removed: left, added: new Map(left) };
  return (kind, message) => {
    const count = moves[kind].get(keyOf(message)) ?? 0;
    moves[kind].set(keyOf(message), count - 1);
    return count > 0;
  };
};

/**
 * @param {Run[]} runs of one slot
 * @param {(kind: string, message: any) => boolean} hasMoved
 * @returns {Change[]}
 */
const changesOf = (runs, hasMoved) => {
  const cameHere = countedKeys(runs, "added");
  /** @type {Change[]} */
  const changes = [];
  let removed = [];
  const close = (added) => {
    changes.push(...pairsOf(removed, added));
    removed = [];
  };
  for (const { kind, messages } of runs) {
    if (kind === "same") {
      close([]);
      changes.push({ kind, role: "", text: "", count: messages.length });
      continue;
    }
    /** @type {any[][]} */
    const [moved, rest] = [[], []];
    for (const message of messages) (hasMoved(kind, message) ? moved : rest).push(message);
    // Within a slot it is told where it is now, and not where it was.
    const told =
      kind === "added" ? moved : moved.filter((message) => !cameHere.has(keyOf(message)));
    changes.push(...told.map((message) => one(kind === "added" ? "moved" : "left", message)));
    if (kind === "removed") removed = rest;
    else close(rest);
  }
  close([]);
  return changes;
};

const toolsOf = ({ request, messages, tools: key }) => {
  if (!key) return messages.filter((message) => message.slot === "tools"); // another agent's
  const { tools, toolConfig } = JSON.parse(request.body);
  const text = JSON.stringify(tools ?? toolConfig ?? "held by the vendor", null, 1);
  return [{ role: "tools", key, parts: [{ text }] }];
};

/**
 * Every slot of two requests with what is different in it, in the order of the new one.
 * @param {any} before
 * @param {any} after
 */
export const differencesOf = (before, after) => {
  const of = (data, name) => data.messages.filter((message) => message.slot === name);
  const names = new Set([...after.messages, ...before.messages].map((message) => message.slot));
  names.delete("tools");
  const slots = [
    { name: "tools", runs: messageRuns(toolsOf(before), toolsOf(after)) },
    ...[...names].map((name) => ({ name, runs: messageRuns(of(before, name), of(after, name)) })),
  ];
  const hasMoved = movesAmong(slots.flatMap(({ runs }) => runs));
  return slots.map(({ name, runs }) => ({ name, changes: changesOf(runs, hasMoved) }));
};

export const totalsOf = (slots) => {
  const changes = slots.flatMap((slot) => slot.changes);
  const many = (kind) => changes.filter((change) => change.kind === kind).length;
  return {
    removed: many("removed"),
    added: many("added"),
    changed: many("changed"),
    moved: many("moved"),
  };
};
