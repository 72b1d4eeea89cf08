// What was said and done in a turn, in order: each call with its result. No DOM.

/** @typedef {{ text: string, reasoning: string, calls: Record<string, string> }} Open */
/** @typedef {Record<string, any>} Step */

const WHO = { user: "you", assistant: "model", tool: "tool", system: "system" };
const STATES = { asked: "waiting for your approval", running: "running" };

// The parameters of a call that is written name(JSON): laid out, unless that would change them.
const paramsOf = ({ name, text }) => {
  const json = text.slice(name.length + 1, -1);
  const value = JSON.parse(json);
  return JSON.stringify(value) === json ? JSON.stringify(value, null, 2) : json;
};

/**
 * @param {any[]} messages of the turn's group
 * @param {Open | null} open what of it is under way
 * @param {Record<string, string[]>} answers what was decided on its calls
 * @param {string} without what a call is that has no result
 * @returns {Step[]}
 */
export const stepsOf = (messages, open, answers = {}, without = "no result") => {
  const results = new Map();
  for (const { parts } of messages)
    for (const part of parts) if (part.kind === "result") results.set(part.id, part);
  const shown = new Set();
  const steps = messages.flatMap(({ role, status, parts }) =>
    parts
      .filter((part) => !shown.has(part))
      .map((part) => {
        const who = WHO[role] ?? role;
        if (part.kind !== "call") return { ...part, who, status };
        const result = results.get(part.id);
        if (result) shown.add(result);
        const state = result ? "" : (STATES[open?.calls[part.id] ?? ""] ?? without);
        const decided = answers[part.id] ?? [];
        return { ...part, params: paramsOf(part), who, status, result, state, decided };
      }),
  );
  const words = [
    { kind: "reasoning", text: open?.reasoning },
    { kind: "text", text: open?.text },
  ];
  const arriving = words.filter(({ text }) => text);
  return [...steps, ...arriving.map((part) => ({ ...part, who: "model", status: "arriving" }))];
};

// What a turn that runs does now, in words.
export const doing = (steps) =>
  steps.findLast((step) => STATES.asked === step.state || STATES.running === step.state)?.state ??
  (steps.at(-1)?.status === "arriving" ? "answering" : "waiting for the model");
