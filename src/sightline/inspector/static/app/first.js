// What the first rows are drawn from, asked for while the other modules are on their way.
const asked = new Map();

const keep = (path, coming) => {
  coming.catch(() => {}); // who takes it is told what went wrong
  asked.set(path, coming);
};

/** The response that was asked for early at an address, once; nothing where none was. */
export const early = (path) => {
  const coming = asked.get(path);
  asked.delete(path);
  return coming;
};

const ask = (path) => fetch(`.${path}`, { credentials: "same-origin" });

const askTurns = (session) => {
  const path = `/api/sessions/${session}/turns`;
  keep(path, ask(path));
};

// The turns of the newest session are asked for before anybody else knows which one that is.
const askBoth = async () => {
  const response = await ask("/api/sessions");
  const [first] = response.ok ? (await response.clone().json()).sessions : [];
  if (first) askTurns(first.id);
  return response;
};

if (!document.getElementById("recorded")) {
  const [place, query] = location.hash.split("?");
  const session = /^#\/s\/(\d+)/.exec(place)?.[1];
  const isFiltered = new URLSearchParams(query).has("filter");
  keep("/api/sessions", session ? ask("/api/sessions") : askBoth());
  if (session && !isFiltered) askTurns(session);
}
