// The rows of the prompt map, whose figures add up to the prompt. No DOM.

// One colour per slot name, for ever: known names have theirs, others one by their letters.
const KNOWN = [
  "tools",
  "system",
  "guidelines",
  "instructions",
  "history",
  "input",
  "rounds",
  "memos",
  "anchor",
  "scratchpad",
  "apps",
  "state",
  "hooks",
  "mode",
  "frame",
];
const OTHERS = 5;

/** @param {string} name */
export const colourOf = (name) => {
  const known = KNOWN.indexOf(name);
  if (known >= 0) return `c${known}`;
  let hash = 0;
  for (const letter of name) hash = (hash * 31 + (letter.codePointAt(0) ?? 0)) % 65_521;
  return `c${KNOWN.length + (hash % OTHERS)}`;
};

/**
 * Frame, tools and slots in prompt order, with the tokens of each that are as in the request
 * before, and those of them that a cache can reuse.
 * @param {any} receipt
 * @param {Record<string, number[]>} asBefore by slot
 */
export const rowsOf = (receipt, asBefore = {}) => {
  const fixed = (name, tokens) => ({ name, offered: tokens, kept: tokens, cut: 0, line: null });
  const slots = receipt.slots.map((line, slot) => ({
    name: line.name,
    offered: line.offered,
    kept: line.kept,
    cut: line.cut,
    line,
    slot,
  }));
  const ahead = [fixed("frame", receipt.overhead), fixed("tools", receipt.tools)];
  const rows = [...ahead.filter((row) => row.kept > 0), ...slots];
  const rest = receipt.total - rows.reduce((sum, row) => sum + row.kept, 0);
  if (rest !== 0) rows.push(fixed("not in a slot", rest));
  return rows.map((row) => {
    const [same, reusable] = asBefore[row.name] ?? [0, 0];
    return { slot: -1, ...row, same, reusable, colour: colourOf(row.name) };
  });
};

export const sumOf = (rows, key) => rows.reduce((sum, row) => sum + row[key], 0);
