// What is to be different about a turn, from the address; two receipts side by side. No DOM.

const number = (text) => (text === undefined || text === "" ? null : Number(text));

/** @param {Record<string, string>} options of the address */
export const wishesOf = (options) => {
  const rules = ["max_ratio", "min_tokens", "priority"]
    .map((key) => [key, number(options[key])])
    .filter(([, value]) => value !== null);
  return {
    budget: number(options.budget),
    window: number(options.window),
    slack: number(options.slack),
    results: number(options.results),
    tail: number(options.tail),
    strategy: options.strategy || null,
    model: options.model || null,
    slots: options.of && rules.length ? { [options.of]: Object.fromEntries(rules) } : {},
  };
};

export const isNothing = ({ slots, ...wishes }) =>
  Object.keys(slots).length === 0 && Object.values(wishes).every((value) => value === null);

/** What frame, tools and every slot weigh in two prompts: name, one, other. */
export const sideBySide = (one, other) => {
  const rows = (receipt) => [
    ["frame", receipt.overhead],
    ["tools", receipt.tools],
    ...receipt.slots.map((line) => [line.name, line.kept]),
  ];
  const [before, after] = [new Map(rows(one)), new Map(rows(other))];
  const names = new Set([...before.keys(), ...after.keys()]);
  return [...names]
    .map((name) => [name, before.get(name) ?? 0, after.get(name) ?? 0])
    .filter(([, was, would]) => was + would > 0);
};
