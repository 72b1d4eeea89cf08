// Templates: `html` makes elements, never markup. Texts become text nodes whatever is in them.

import htm from "htm";
import { h } from "preact";

// Unicode, explicit directional formatting characters, characters without width, and tags, in which
// words can be hidden from people and not from models: they are shown, and turn nothing round.
const HIDDEN = /[\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff\u{e0000}-\u{e007f}]/gu;
const named = (control) =>
  `⟨U+${control.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}⟩`;
export const revealed = (child) =>
  typeof child === "string" ? child.replace(HIDDEN, named) : child;

const element = (type, props, ...children) => h(type, props, ...children.map(revealed));

export const html = htm.bind(element);

const whole = new Intl.NumberFormat("en");

export const count = (n) => (n === null || n === undefined ? "–" : whole.format(n));
/** How many there are of something, by the name of one. */
export const many = (n, name) => `${count(n)} ${name}${n === 1 ? "" : "s"}`;
export const tokens = (n, basis) => `${count(n)}${basis && basis !== "counted" ? ` ${basis}` : ""}`;
/** A share in percent, between 0 and 100. */
export const percent = (part, all) =>
  all > 0 ? Math.min(100, Math.max(0, (100 * part) / all)) : 0;
export const share = (part, all) => (all ? `${Math.round(percent(part, all))}\u00a0%` : "–");

const LEAST_USD = 0.0001; // that is written as an amount

/** A price as the terminal writes it, or a sum without `unpriced` requests of unknown price. */
export const dollars = (usd, unpriced = 0) => {
  if (usd === null || usd === undefined) return "unknown";
  const inCents = usd >= 1 || Math.abs(usd - Number(usd.toFixed(2))) < LEAST_USD / 2;
  const digits = inCents ? usd.toFixed(2).replace(/\.00$/, "") : usd.toFixed(4).replace(/0+$/, "");
  const text = usd > 0 && usd < LEAST_USD ? `under $${LEAST_USD}` : `$${digits}`;
  return unpriced ? `${text} + ${many(unpriced, "request")} of unknown price` : text;
};

/** How long something took, in the units that people use for so much. */
export const seconds = (ms) => {
  if (ms === null || ms === undefined) return "–";
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(1)} s`;
  const whole = Math.floor(ms / 1000);
  if (whole < 3600) return `${Math.floor(whole / 60)} m ${whole % 60} s`;
  return `${count(Math.floor(whole / 3600))} h ${Math.floor((whole % 3600) / 60)} m`;
};
