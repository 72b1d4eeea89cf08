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

const ask = (path) => keep(path, fetch(`.${path}`, { credentials: "same-origin" }));

if (!document.getElementById("recorded")) {
  const [place, query] = location.hash.split("?");
  /** @type {HTMLMetaElement | null} */
  const newest = document.querySelector("meta[name=newest-session]");
  const session = /^#\/s\/(\d{1,15})(?!\d)/.exec(place)?.[1] ?? newest?.content;
  ask("/api/sessions");
  if (session && !new URLSearchParams(query).has("filter")) ask(`/api/sessions/${session}/turns`);
}
