// Answers of the server, by address. An exported page has them inside and asks nobody.
import { signal, useSignal } from "@preact/signals";
import { early } from "app/first";
import { useLayoutEffect, useRef } from "preact/hooks";

// The page is served in a room of its own: addresses are said from its root, and asked from here.
const here = (path) => `.${path}`;

const inside = document.getElementById("recorded");
const recorded = inside ? JSON.parse(inside.textContent) : null;

// The text of runs of pieces: where one begins, how long it is, and so on.
const joined = (runs) => {
  let text = "";
  for (let at = 0; at < runs.length; at += 2)
    text += recorded.pieces.slice(runs[at], runs[at] + runs[at + 1]).join("");
  return text;
};

export const isExport = recorded !== null;
export const news = signal({
  session: /** @type {number | null} */ (null), // the one whose turns are meant
  sessions: "",
  turns: "",
  open: null,
  state: isExport ? "recorded" : "connecting",
  isTrouble: false, // whether the state is one that somebody should see
});

const SILENT = "The inspector does not answer. Is sightline inspect still running?";

// Fetch: who cannot be reached is a TypeError, in words that differ from browser to browser.
const reached = (coming) =>
  coming.catch(() => {
    throw new Error(SILENT);
  });

const problem = async (response) => {
  const body = await response.json().catch(() => ({}));
  return new Error(body.error ?? `${response.status} ${response.statusText}`);
};

// What an export has at an address; nothing if it is not part of it.
export const recordedAt = (path) => {
  const runs = recorded.texts[recorded.answers[path]];
  return runs ? JSON.parse(joined(runs)) : null;
};

export const get = async (path) => {
  if (recorded) {
    const answer = recordedAt(path);
    if (answer) return answer;
    throw new Error("not part of this export");
  }
  const response = await reached(early(path) ?? fetch(here(path), { credentials: "same-origin" }));
  if (!response.ok) throw await problem(response);
  return response.json();
};

export const post = async (path, body) => {
  if (recorded) throw new Error("an export cannot compute: open the session in the inspector");
  const asked = fetch(here(path), {
    method: "POST",
    credentials: "same-origin",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(body),
  });
  const response = await reached(asked);
  if (!response.ok) throw await problem(response);
  const answer = await response.json();
  if (answer.error) throw new Error(answer.error);
  return answer;
};

/**
 * @typedef {{ path: string | null, data: any, error: string | null, retry?: () => void }} Answer
 */

/** @type {Answer} */
const NONE = { path: null, data: null, error: null };

/**
 * The answer at an address, asked anew when the address or `fresh` changes, unless it was read from
 * what `fresh` names; with null it is not asked yet. While it is asked anew the old one stays;
 * that of another address never does.
 * @param {string | null} path
 * @param {string | number | null} fresh
 * @returns {Answer}
 */
export const useAnswer = (path, fresh = "") => {
  const answer = useSignal(NONE);
  const tries = useSignal(0);
  const last = useRef({ path: "", coming: Promise.resolve(/** @type {any} */ (null)) });
  // Not after the next frame: what is asked for at once is there sooner.
  useLayoutEffect(() => {
    if (!path || fresh === null) return undefined;
    let wanted = true;
    const show = (data, error) => {
      if (wanted) answer.value = { path, data, error };
    };
    const before = last.current.path === path ? last.current.coming : Promise.resolve(null);
    const ask = (known) => (known && known.seal === fresh ? known : wanted ? get(path) : null);
    const coming = before.then(ask);
    last.current = { path, coming: coming.catch(() => null) };
    coming.then(
      (data) => show(data, null),
      (error) => show(null, error.message),
    );
    return () => {
      wanted = false;
    };
  }, [path, fresh, tries.value]);
  const retry = () => {
    answer.value = NONE;
    tries.value += 1;
  };
  return answer.value.path === path ? { ...answer.value, retry } : NONE;
};

const LOST = "the ledger was deleted or replaced; this is what is left of it";

// HTML, server-sent events: a source that is closed was refused, and does not try again.
const lostFrom = (source) =>
  source.readyState === EventSource.CLOSED
    ? "not let in any more: sightline inspect was started anew; open the address that it prints"
    : "not connected: is sightline inspect still running?";

/**
 * Hear what is new of a session; returns how to stop.
 * @param {number | null} session
 */
export const listen = (session) => {
  if (recorded) return undefined;
  const source = new EventSource(here(`/api/events?session=${session ?? 0}`));
  const tell = (change) => {
    news.value = { ...news.peek(), ...change };
  };
  const warn = (state) => tell({ state, isTrouble: true });
  source.onerror = () => warn(lostFrom(source));
  source.addEventListener("trouble", (event) => warn(JSON.parse(event.data)));
  source.addEventListener("changed", (event) => {
    const { sessions, turns, open, lost } = JSON.parse(event.data);
    tell({ session, sessions, turns, open, state: lost ? LOST : "live", isTrouble: lost });
  });
  return () => source.close();
};
