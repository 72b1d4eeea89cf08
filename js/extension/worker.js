/**
 * Keeps the connection to the bridge and decides what may pass.
 *
 * A page is *shared* while it offers its state, the user has allowed its site, and the bridge is
 * there. Only shared pages are announced, and only messages of a shared page that an agent has
 * opened leave the browser. What a page's site is, the browser says and not the page. There is no
 * connection while there is nothing to share.
 *
 * The browser may end this script at any time: pages come back by themselves, and what the user
 * decided is stored.
 */
const PORT = 9339;
const WAITS_MS = [1_000, 2_000, 4_000, 8_000, 15_000, 30_000];
// A worker that calls nothing of the browser for 30 s is ended, its connection with it.
const AWAKE_MS = 20_000;
const UNSENT_BYTES = 32 * 1024 * 1024;
const ACTIONS = 5;

/**
 * @typedef {object} Page
 * @property {number} tabId
 * @property {string} key
 * @property {string} origin
 * @property {chrome.runtime.Port<FromPage, ToPage> | undefined} link  none while the tab is discarded
 * @property {Offer | undefined} offer
 * @property {boolean} greeted  whether it was asked who it is
 * @property {boolean} asleep
 * @property {"gone" | "here" | "asleep"} announced  what the bridge was told last
 * @property {{channel: string | undefined, name: string}[]} readers  one for each agent that opened it
 * @property {Act[]} acts  the last things that agents did here, the newest first
 */

/** @type {Map<number, Page>} */
const pages = new Map();
/** @type {Set<chrome.runtime.Port<FromPopup, ToPopup>>} */
const popups = new Set();
/** @type {Set<string>} */
let sites = new Set();
let token = "";
let port = PORT;
/** @type {WebSocket | undefined} */
let socket;
let failures = 0;
/** @type {ReturnType<typeof setTimeout> | undefined} */
let retry;
/** @type {ReturnType<typeof setInterval> | undefined} */
let awake;

/** Have the bridge, the badges and the popup agree with what is so now. */
function update() {
  const all = [...pages.values()];
  const wanted = all.some(isAllowed);
  if (wanted) dial();
  for (const page of all) {
    greet(page);
    announce(page);
  }
  if (!wanted) hangUp();
  for (const page of all) mark(page);
  show();
}

function show() {
  const shown = [...pages.values()].flatMap(({ tabId, origin, offer, asleep, readers, acts }) => {
    if (offer === undefined) return [];
    const names = readers.map((reader) => reader.name);
    return { tabId, origin, offer, asleep, acts, allowed: sites.has(origin), readers: names };
  });
  const connected = socket?.readyState === WebSocket.OPEN;
  for (const popup of popups) {
    popup.postMessage({ connected, paired: token !== "", port, pages: shown });
  }
}

/** @param {Page} page */
function isAllowed(page) {
  return page.offer !== undefined && sites.has(page.origin);
}

/** @param {Page} page */
function greet(page) {
  if (page.greeted || !isAllowed(page) || page.offer?.known) return;
  page.greeted = true;
  page.link?.postMessage({ kind: "greet" });
}

/** @param {Page} page */
function announce(page) {
  const { tabId, key, origin, offer } = page;
  const wanted = !(isAllowed(page) && offer?.known) ? "gone" : page.asleep ? "asleep" : "here";
  if (socket?.readyState !== WebSocket.OPEN || wanted === page.announced) return;
  if (wanted === "here" && offer) {
    const { transport, url, title } = offer;
    const provider = { id: offer.id || key, name: offer.name || title || origin, transport, url };
    send("provider-available", key, { tabId, provider: { ...provider, origin, tabTitle: title } });
  } else {
    close(page);
    send("provider-unavailable", key, { tabId, reason: page.asleep ? "asleep" : undefined });
  }
  page.announced = wanted;
}

/** @param {string} type @param {string} providerKey @param {object} more */
function send(type, providerKey, more) {
  if (socket?.readyState !== WebSocket.OPEN) return;
  socket.send(JSON.stringify({ type, providerKey, ...more }));
  // Nobody reads there: whoever comes next gets the state anew.
  if (socket.bufferedAmount > UNSENT_BYTES) socket.close();
}

function dial() {
  awake ??= setInterval(() => chrome.runtime.getPlatformInfo(), AWAKE_MS);
  if (socket !== undefined || retry !== undefined) return;
  const text = btoa(String.fromCharCode(...new TextEncoder().encode(token)));
  const bearer = text.replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
  const dialled = new WebSocket(
    `ws://127.0.0.1:${port}/slop-bridge`,
    token ? ["slop", `slop.bearer.${bearer}`] : [],
  );
  socket = dialled;
  dialled.onopen = () => {
    failures = 0;
    update();
  };
  dialled.onmessage = (event) => receive(event.data);
  dialled.onclose = () => {
    if (socket !== dialled) return;
    forget();
    retry = setTimeout(again, WAITS_MS[Math.min(failures++, WAITS_MS.length - 1)]);
    update();
  };
}

function again() {
  clearTimeout(retry);
  retry = undefined;
  update();
}

function hangUp() {
  clearTimeout(retry);
  clearInterval(awake);
  retry = awake = undefined;
  socket?.close();
  forget();
}

function forget() {
  socket = undefined;
  for (const page of pages.values()) {
    close(page);
    page.announced = "gone";
  }
}

/** @param {string} text */
function receive(text) {
  /** @type {any} */
  let frame;
  try {
    frame = JSON.parse(text);
  } catch {
    return;
  }
  const page = [...pages.values()].find((page) => page.key === frame?.providerKey);
  if (page === undefined || page.announced !== "here") return;
  const channel = typeof frame.channel === "string" ? frame.channel : undefined;
  if (frame.type === "relay-open") open(page, channel, frame.consumer);
  else if (frame.type === "relay-close") leave(page, channel);
  else if (frame.type === "slop-relay" && frame.message instanceof Object) {
    if (!page.readers.some((reader) => reader.channel === channel)) open(page, channel);
    relay(page, channel, frame.message);
  }
  show();
}

/** @param {Page} page @param {string | undefined} channel @param {Message} message */
function relay(page, channel, message) {
  if (message.type === "invoke") {
    const act = { action: String(message.action), path: String(message.path), at: Date.now() };
    page.acts = [act, ...page.acts].slice(0, ACTIONS);
  }
  page.link?.postMessage({ kind: "relay", channel, message });
}

/** @param {Page} page @param {string | undefined} channel @param {unknown} [consumer] */
function open(page, channel, consumer) {
  const name = typeof consumer === "string" ? consumer : "";
  page.readers.push({ channel, name });
  page.link?.postMessage({ kind: "open", open: true });
}

/** @param {Page} page @param {string | undefined} channel */
function leave(page, channel) {
  const at = page.readers.findIndex((reader) => reader.channel === channel);
  if (at < 0) return;
  page.readers.splice(at, 1);
  if (page.readers.some((reader) => reader.channel === channel)) return;
  relay(page, channel, { type: "disconnect" });
  page.link?.postMessage({ kind: "open", open: page.readers.length > 0 });
}

/** @param {Page} page */
function close(page) {
  for (const { channel } of [...page.readers]) leave(page, channel);
}

/** @param {Page} page */
function mark(page) {
  const text = page.announced === "here" ? "on" : page.offer && !isAllowed(page) ? "?" : "";
  // A tab that was closed meanwhile has no badge.
  chrome.action.setBadgeText({ tabId: page.tabId, text }).catch(() => {});
}

/** @param {chrome.runtime.Port<FromPage, ToPage>} link */
function meet(link) {
  const tabId = link.sender?.tab?.id;
  const origin = link.sender?.origin ?? "null";
  // The origin "null" is that of all pages which have none of their own.
  if (tabId === undefined || origin === "null") return;
  const before = pages.get(tabId);
  const woken = before?.origin === origin && before.asleep;
  if (before !== undefined && !woken) part(before);
  const key = woken ? before.key : `tab-${tabId}@${origin}`;
  const announced = woken ? before.announced : "gone";
  /** @type {Page} */
  const page = {
    tabId,
    link,
    origin,
    key,
    announced,
    offer: undefined,
    greeted: false,
    asleep: false,
    readers: [],
    acts: [],
  };
  pages.set(tabId, page);
  link.onMessage.addListener((message) => {
    if (message.kind === "relay") {
      const { channel, message: relayed } = message;
      if (page.readers.length > 0) send("slop-relay", page.key, { channel, message: relayed });
      return;
    }
    if (message.kind === "offer") take(page, message.offer);
    else page.asleep = message.asleep;
    update();
  });
  link.onDisconnect.addListener(() => lose(page));
}

/** @param {Page} page @param {Offer | undefined} offer */
function take(page, offer) {
  // One that is reached in another way is another app.
  if (page.offer?.transport !== offer?.transport || page.offer?.url !== offer?.url) {
    page.offer = undefined;
    announce(page);
  }
  page.offer = offer;
}

/** @param {Page} page */
function part(page) {
  page.link = undefined;
  take(page, undefined);
  pages.delete(page.tabId);
}

/** @param {Page} page */
async function lose(page) {
  page.link = undefined;
  const find = () => chrome.tabs.get(page.tabId).catch(() => undefined);
  // A tab that is discarded gets another id, by which it is found at the second look.
  const tab = (await find()) ?? (await find());
  if (pages.get(page.tabId) !== page) return;
  if (tab?.discarded) page.asleep = true;
  else part(page);
  update();
}

/** @param {chrome.runtime.Port<FromPopup, ToPopup>} popup */
function serve(popup) {
  popups.add(popup);
  popup.onDisconnect.addListener(() => popups.delete(popup));
  popup.onMessage.addListener(async (wish) => {
    await loaded;
    if (wish.kind === "allow") sites.add(wish.origin);
    else if (wish.kind === "stop") sites.delete(wish.origin);
    else if (wish.kind === "stop all") sites.clear();
    else if (wish.kind === "pair") {
      token = wish.token.trim();
      port = wish.port || PORT;
      failures = 0;
      hangUp();
    }
    update();
    await chrome.storage.local.set({ sites: [...sites], token, port });
  });
  loaded.then(show);
}

/** @type {{sites: string[], token: string, port: number}} */
const fresh = { sites: [], token: "", port: PORT };
const loaded = chrome.storage.local.get(fresh).then((stored) => {
  ({ token, port } = stored);
  sites = new Set(stored.sites);
  update();
});
chrome.tabs.onReplaced.addListener((added, removed) => {
  const page = pages.get(removed);
  if (page === undefined) return;
  pages.delete(removed);
  pages.set(added, Object.assign(page, { tabId: added }));
});
chrome.runtime.onConnect.addListener((link) => {
  if (link.name === "page") {
    meet(/** @type {chrome.runtime.Port<FromPage, ToPage>} */ (link));
    // A page's script may call itself a popup; its origin says that it is none.
  } else if (link.sender?.origin === location.origin) {
    serve(/** @type {chrome.runtime.Port<FromPopup, ToPopup>} */ (link));
  }
});
