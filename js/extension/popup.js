/** Shows which pages offer their state, who reads them and what was done there; allows and stops. */

// What lets a text pass for another one: controls, marks that turn it round, blanks of no width.
const UNSEEN = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu;
const CHARACTERS = 80;

const [active] = await chrome.tabs.query({ active: true, currentWindow: true });
/** @type {chrome.runtime.Port<ToPopup, FromPopup>} */
let worker;

/** Be told by the worker; one that was ended begins again. */
function connect() {
  worker = /** @type {typeof worker} */ (chrome.runtime.connect({ name: "popup" }));
  worker.onMessage.addListener(render);
  worker.onDisconnect.addListener(connect);
}

/**
 * A text from outside, every character of it to be seen, apart from the text around it.
 * @param {string} text
 */
function quoted(text) {
  const seen = text.replace(UNSEEN, (mark) => `\\u{${mark.codePointAt(0)?.toString(16)}}`);
  return element("bdi", {}, seen.length > CHARACTERS ? `${seen.slice(0, CHARACTERS)}…` : seen);
}

/**
 * @param {string} tag
 * @param {Record<string, unknown>} fields
 * @param {(string | Node)[]} parts
 */
function element(tag, fields, ...parts) {
  const made = Object.assign(document.createElement(tag), fields);
  made.append(...parts);
  return made;
}

/** @param {ToPopup["pages"][number]} page */
function standing(page) {
  if (!page.allowed) return ["offers its state; nothing is shared"];
  if (page.asleep) return ["allowed; the tab sleeps"];
  if (page.offer.transport === "ws")
    return ["allowed; agents connect to ", quoted(page.offer.url ?? "")];
  if (page.readers.length === 0) return ["shared; nobody reads it"];
  const named = page.readers.filter((name) => name !== "").flatMap((name) => [" · ", quoted(name)]);
  return [
    `shared with ${page.readers.length === 1 ? "one agent" : `${page.readers.length} agents`}`,
    ...named,
  ];
}

/** @param {ToPopup["pages"][number]} page */
function entry(page) {
  const { origin, offer, acts, allowed } = page;
  const press = () => worker.postMessage({ kind: allowed ? "stop" : "allow", origin });
  const done = acts.map((act) =>
    element(
      "li",
      {},
      new Date(act.at).toLocaleTimeString(),
      " ",
      quoted(act.action),
      " on ",
      quoted(act.path),
    ),
  );
  return element(
    "li",
    { className: allowed ? "shared" : "" },
    element("h2", {}, quoted(offer.name || offer.title || origin)),
    element("p", { className: "origin" }, quoted(origin)),
    element("p", {}, ...standing(page)),
    element(
      "button",
      { id: `tab-${page.tabId}`, type: "button", onclick: press },
      allowed ? "Stop" : "Allow this site",
    ),
    element("ol", { ariaLabel: "What agents did here" }, ...done),
  );
}

/** @param {ToPopup} shown */
function render(shown) {
  const focus = document.activeElement?.id;
  const pages = shown.pages.sort(
    (a, b) => Number(b.tabId === active?.id) - Number(a.tabId === active?.id),
  );
  const shared = pages.some((page) => page.allowed);
  find("bridge").textContent = shown.connected
    ? "Connected to the bridge on this machine."
    : shared
      ? `No bridge answers at 127.0.0.1:${shown.port}: start an agent with its bridge on, or pair.`
      : "Not connected: nothing is shared.";
  find("pages").replaceChildren(...pages.map(entry));
  if (pages.length === 0) find("pages").append(element("li", {}, "No open page offers its state."));
  find("stop").hidden = !shared;
  find("paired").textContent = shown.paired
    ? "Paired; another token replaces this one."
    : "Not paired.";
  if (focus) document.getElementById(focus)?.focus();
}

/** @param {string} id */
function find(id) {
  return /** @type {HTMLElement} */ (document.getElementById(id));
}

find("stop").addEventListener("click", () => worker.postMessage({ kind: "stop all" }));
find("pair").addEventListener("submit", (event) => {
  event.preventDefault();
  const data = new FormData(/** @type {HTMLFormElement} */ (find("pair")));
  worker.postMessage({
    kind: "pair",
    token: String(data.get("token")),
    port: Number(data.get("port")),
  });
});
connect();
