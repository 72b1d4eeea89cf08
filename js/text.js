/** The canonical text of a tree, as a model reads it: for a page that shows what it shares. */

const isText = (value) => typeof value === "string";
const isObject = (value) => Object.prototype.toString.call(value) === "[object Object]";

const SHORT = { "\n": "\\n", "\r": "\\r", "\t": "\\t", "\b": "\\b", "\f": "\\f" };
const visible = (text) =>
  text.replace(
    /[\s\S]/g,
    (char) => SHORT[char] ?? `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
const INVISIBLE = /[\p{Cc}\u2028\u2029\u202a-\u202e\u2066-\u2069]/gu;
const MARKER = /(?<!\s)\s+(?=actions:\s?\{|salience=|—\s?")/g;

/** Write out what is invisible, or could pass for the line's own punctuation. */
function plain(text, punctuation) {
  const shown = text.replace(INVISIBLE, visible).replace(MARKER, visible);
  return punctuation ? shown.replace(punctuation, visible) : shown;
}

/** A value as the hosts write it that get it from here. */
function written(value) {
  if (typeof value === "number") {
    const isTiny = value !== 0 && Math.abs(value) < 1e-5;
    return (isTiny ? value.toExponential() : JSON.stringify(value)).replace("e+", "e");
  }
  if (Array.isArray(value)) return `[${value.map(written).join(",")}]`;
  if (!isObject(value)) return JSON.stringify(value);
  return `{${Object.entries(value)
    .map(([key, member]) => `${JSON.stringify(key)}:${written(member)}`)
    .join(",")}}`;
}

const NAMES = /[{}(),:]/g;

function actionText({ action, params }) {
  const names = Object.entries(isObject(params?.properties) ? params.properties : {}).map(
    ([name, schema]) => {
      const types = [schema?.type].flat().filter(isText);
      return `${plain(name, NAMES)}: ${types.map((type) => plain(type, NAMES)).join("|") || "any"}`;
    },
  );
  return plain(action, NAMES) + (names.length ? `(${names.join(", ")})` : "");
}

/**
 * The canonical text of a tree, as a model reads it: one line per node.
 * @param {import("./sightline.js").Node} node @returns {string}
 */
export function formatTree(node, indent = "") {
  const { label, title, ...rest } = node.properties ?? {};
  const meta = node.meta ?? {};
  const given = label == null || label === "" ? title : label;
  const name = given == null ? "" : isText(given) ? given : written(given);
  const members = Object.entries(rest).map(
    ([key, value]) => `${plain(key)}=${plain(written(value))}`,
  );
  const actions = (node.affordances ?? []).map(actionText);
  const [total, inlined] = [meta.total_children ?? 0, node.children?.length ?? 0];
  let line = `${indent}[${plain(node.type, /[[\]]/g)}] ${plain(node.id)}`;
  if (name && name !== node.id) line += `: ${plain(name)}`;
  if (members.length) line += ` (${members.join(", ")})`;
  if (meta.summary) line += `  — "${plain(meta.summary)}"`;
  if (meta.salience != null) line += `  salience=${Math.floor(meta.salience * 100 + 0.5) / 100}`;
  if (actions.length) line += `  actions: {${actions.join(", ")}}`;
  if (total > inlined && meta.window) line += `\n${indent}  (showing ${inlined} of ${total})`;
  else if (total > 0 && !inlined)
    line += `\n${indent}  (${total} ${total === 1 ? "child" : "children"} not loaded)`;
  return [line, ...(node.children ?? []).map((child) => formatTree(child, `${indent}  `))].join(
    "\n",
  );
}
