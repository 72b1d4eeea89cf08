// The filter of an exported page, which has no server to ask: as `inspector/filters.py` reads it.

/** @typedef {{ isNot: boolean, field: string, operator: string, value: string }} Term */
/** @typedef {{ row: any, words: string, calls: string[], models: string[] }} Said */

const TERM = /(-?)(?:([A-Za-z]+)(:|<=|>=|<|>|=))?("[^"]*"?|\S*)/g;
const FIGURE = /^\$?(\d+(?:\.\d+)?)(%|ms|s|m|k|\$|)$/;
const WORTH = { ms: 0.001, m: 60, k: 1_000 };
const FIGURES = {
  cache: (row) => (row.prompt_tokens ? (100 * row.cached_tokens) / row.prompt_tokens : null),
  cost: (row) => row.cost_usd,
  time: (row) => (row.duration_ms === null ? null : row.duration_ms / 1_000),
  tokens: (row) => row.prompt_tokens,
  requests: (row) => row.requests,
  turn: (row) => row.turn,
};
const COMPARES = {
  "<": (one, other) => one < other,
  "<=": (one, other) => one <= other,
  ">": (one, other) => one > other,
  ">=": (one, other) => one >= other,
  "=": (one, other) => one === other,
};

/** @returns {Term[]} */
const termsOf = (text) =>
  [...text.matchAll(TERM)]
    .map(([, minus, field = "", operator = "", value]) => ({
      isNot: minus === "-",
      field: field.toLowerCase(),
      operator,
      value: value.startsWith('"') ? value.slice(1).replace(/"$/, "") : value,
    }))
    .filter(({ field, value }) => field || value);

const lower = (text) => text.toLocaleLowerCase("en");
const has = (texts, wanted) => texts.some((text) => lower(text).includes(lower(wanted)));

/** @type {(term: Term, said: Said) => boolean} */
const holds = ({ field, operator, value }, { row, words, calls, models }) => {
  if (field === "") return has([words], value);
  if (field === "status") return row.status === value;
  if (field === "tool") return calls.includes(value);
  if (field === "model") return has(models, value);
  const [, number, unit] = FIGURE.exec(value) ?? [];
  const known = FIGURES[field](row);
  return known !== null && COMPARES[operator](known, Number(number) * (WORTH[unit] ?? 1));
};

const isRead = ({ field, operator, value }) =>
  ["", "status", "tool", "model"].includes(field)
    ? field === "" || operator === ":"
    : field in FIGURES && operator in COMPARES && FIGURE.test(value);

/**
 * Which turns a filter admits, or what is wrong with it.
 * @param {string} text
 * @param {Said[]} turns
 */
export const admitted = (text, turns) => {
  const terms = termsOf(text);
  const wrong = terms.find((term) => !isRead(term));
  if (wrong)
    return { turns: [], problem: `${wrong.field}${wrong.operator}${wrong.value} is no filter` };
  const fits = (said) => terms.every((term) => holds(term, said) !== term.isNot);
  return { turns: turns.filter(fits).map(({ row }) => row.turn), problem: "" };
};
