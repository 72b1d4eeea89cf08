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
const keyOf = (message) => `${message.role}\0${textOf(message)}`;

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

/** @returns {Change[]} */
const changesOf = (before, after) => {
  const messages = new Map([...before, ...after].map((message) => [keyOf(message), message]));
  const known = (keys) => keys.map((key) => messages.get(key));
  /** @type {Change[]} */
  const changes = [];
  let removed = [];
  for (const run of runsOf(before.map(keyOf), after.map(keyOf))) {
    if (run.removed) removed = known(run.value);
    else {
      changes.push(...pairsOf(removed, run.added ? known(run.value) : []));
      removed = [];
      if (!run.added) changes.push({ kind: "same", role: "", text: "", count: run.value.length });
    }
  }
  return [...changes, ...pairsOf(removed, [])];
};

const toolsOf = ({ request, messages }) => {
  const listed = messages.filter((message) => message.slot === "tools");
  if (listed.length) return listed; // another agent's stand one by one
  const { tools, toolConfig } = JSON.parse(request.body);
  const list = tools ?? toolConfig;
  return list ? [{ role: "tools", parts: [{ text: JSON.stringify(list, null, 1) }] }] : [];
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
  const slots = [...names].map((name) => ({
    name,
    changes: changesOf(of(before, name), of(after, name)),
  }));
  return [{ name: "tools", changes: changesOf(toolsOf(before), toolsOf(after)) }, ...slots];
};

export const totalsOf = (slots) => {
  const changes = slots.flatMap((slot) => slot.changes);
  const many = (kind) => changes.filter((change) => change.kind === kind).length;
  return { removed: many("removed"), added: many("added"), changed: many("changed") };
};
