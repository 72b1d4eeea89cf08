// What the palette finds for a few letters, best first. No DOM.

/** @typedef {{ kind: string, name: string, keys?: string, run: () => void }} Command */

const lower = (text) => text.toLocaleLowerCase("en");
const wordsOf = (text) => lower(text).split(/\s+/).filter(Boolean);

// 0 begins with it, 1 has words that do, 2 has it somewhere, -1 does not.
const rank = (name, words) => {
  const text = lower(name);
  if (!words.every((word) => text.includes(word))) return -1;
  if (text.startsWith(words.join(" "))) return 0;
  const parts = text.split(/[^\p{L}\p{N}]+/u);
  return words.every((word) => parts.some((part) => part.startsWith(word))) ? 1 : 2;
};

/**
 * @param {Command[]} commands
 * @param {string} text
 * @returns {Command[]}
 */
export const matching = (commands, text) => {
  const words = wordsOf(text);
  return commands
    .map((command) => ({ command, at: rank(`${command.name} ${command.kind}`, words) }))
    .filter(({ at }) => at >= 0)
    .sort((one, other) => one.at - other.at)
    .map(({ command }) => command);
};

/**
 * The filter that finds the turns somebody means: by number, or by words, which are quoted so
 * that none of them reads like a term.
 * @param {string} text
 */
export const filterFor = (text) => {
  if (/^\s*\d+\s*$/.test(text)) return `turn=${text.trim()}`;
  return text
    .replaceAll('"', " ")
    .split(/\s+/)
    .filter((word) => /[\p{L}\p{N}]/u.test(word))
    .map((word) => `"${word}"`)
    .join(" ");
};
