// The address holds the view: #/s/SESSION/t/TURN/REQUEST/VIEW?key=value. Nothing else does.
// `filter` and `find` stay while one goes from turn to turn; the other options are a view's own.
import { signal } from "@preact/signals";

/** The views, as they are called on the page. */
export const TITLES = {
  picture: "Picture",
  conversation: "Conversation",
  changes: "Changes",
  prompt: "Prompt",
  state: "State",
  unseen: "Not seen",
  trace: "Trace",
  whatif: "What if",
  ledger: "Ledger",
};
export const VIEWS = Object.keys(TITLES);

const parse = (hash) => {
  const [path, query = ""] = hash.replace(/^#\/?/, "").split("?");
  const parts = path.split("/");
  const after = (key) => (parts.includes(key) ? parts[parts.indexOf(key) + 1] : undefined);
  // ECMAScript, Number.MAX_SAFE_INTEGER: fifteen digits are always the number that is written.
  const number = (text) => (/^\d{1,15}$/.test(text ?? "") ? Number(text) : null);
  const view = parts[parts.length - 1];
  const { filter = "", find = null, ...options } = Object.fromEntries(new URLSearchParams(query));
  return {
    session: number(after("s")),
    turn: number(after("t")),
    request: number(parts[parts.indexOf("t") + 2]) ?? 1,
    view: VIEWS.includes(view) ? view : "picture",
    filter,
    find, // null while nobody searches
    options,
  };
};

export const route = signal(parse(location.hash));
const read = () => (route.value = parse(location.hash));
addEventListener("hashchange", read);

export const address = (change) => {
  const next = { ...route.value, ...change };
  const turn = next.turn === null ? "" : `/t/${next.turn}/${next.request}`;
  const kept = {
    ...next.options,
    ...(next.filter ? { filter: next.filter } : {}),
    ...(next.find === null ? {} : { find: next.find }),
  };
  const query = new URLSearchParams(kept).toString();
  return `#/s/${next.session}${turn}/${next.view}${query ? `?${query}` : ""}`;
};

export const go = (change, { replace = false } = {}) => {
  read(); // HTML, navigate to a fragment: a link changes the address at once, its event comes later
  const hash = address(change);
  if (replace) history.replaceState(null, "", hash);
  else location.hash = hash;
  read();
};

export const setOption = (key, value) => {
  const { [key]: _, ...rest } = read().options;
  go({ options: value ? { ...rest, [key]: value } : rest }, { replace: true });
};
