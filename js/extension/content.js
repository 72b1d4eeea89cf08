/**
 * Looks in a page for state that it offers, and carries messages between the page and the worker.
 *
 * A page offers its state by `<meta name="slop" content="postmessage">` (or the address of a
 * WebSocket), or by a `hello` that it posts to itself. Of a page that offers none the worker never
 * hears; of one that does it hears how the page calls itself, and nothing more until it opens it.
 */
{
  const RETRY_MS = 500;
  const GREETING = "extension";
  const GREETINGS = 4;
  const GREETING_MS = 300;
  const CHARACTERS = 200;

  /** @type {chrome.runtime.Port<ToPage, FromPage> | undefined} */
  let worker;
  /** @type {Offer | undefined} */
  let offer;
  /** @type {{id?: string, name?: string} | undefined} */
  let hello;
  let known = false;
  let open = false;

  /** @param {unknown} value */
  function short(value) {
    return typeof value === "string" ? value.slice(0, CHARACTERS) : undefined;
  }

  /**
   * A page may name a socket of its own host only, and an open one only if it is open itself.
   * @param {string} address
   */
  function isOwn(address) {
    const url = URL.parse(address);
    if (url === null || url.host !== location.host || url.username || url.password) return false;
    return url.protocol === "wss:" || (url.protocol === "ws:" && location.protocol === "http:");
  }

  /** @returns {Offer | undefined} */
  function find() {
    const named = [...document.querySelectorAll('meta[name="slop"]')].map(
      (meta) => meta.getAttribute("content") ?? "",
    );
    const names = { title: short(document.title) ?? "", known, ...hello };
    if (hello || named.includes("postmessage")) return { transport: "postmessage", ...names };
    const url = named.find(isOwn);
    return url === undefined ? undefined : { transport: "ws", url, ...names, known: true };
  }

  function look() {
    const found = find();
    if (JSON.stringify(found) === JSON.stringify(offer)) return;
    offer = found;
    if (worker === undefined) connect();
    else worker.postMessage({ kind: "offer", offer });
  }

  function connect() {
    // Without an id the extension was removed or renewed, and this script belongs to nobody.
    if (worker !== undefined || offer === undefined || !chrome.runtime?.id) return;
    if ("prerendering" in document && document.prerendering) return;
    worker = /** @type {chrome.runtime.Port<ToPage, FromPage>} */ (
      chrome.runtime.connect({ name: "page" })
    );
    worker.onMessage.addListener(receive);
    worker.onDisconnect.addListener(() => {
      forget();
      setTimeout(connect, RETRY_MS);
    });
    worker.postMessage({ kind: "offer", offer });
  }

  function forget() {
    worker = undefined;
    open = false;
  }

  /** @param {ToPage} message */
  function receive(message) {
    if (message.kind === "open") open = message.open;
    else if (message.kind === "greet") greet();
    else post(message.channel, message.message);
  }

  /** @param {string | undefined} channel @param {Message} message */
  function post(channel, message) {
    window.postMessage({ slop: true, __slop_relay: true, channel, message }, location.origin);
  }

  /** Ask the page who it is, until it says so or long enough. */
  function greet(left = GREETINGS) {
    if (hello === undefined && left > 0) {
      post(GREETING, { type: "connect" });
      setTimeout(greet, GREETING_MS, left - 1);
    } else {
      post(GREETING, { type: "disconnect" });
      known = true;
      look();
    }
  }

  window.addEventListener("message", ({ source, data }) => {
    if (source !== window || data?.slop !== true || data.__slop_relay) return;
    const { channel, message } = data;
    if (typeof message !== "object" || message === null) return;
    if (message.type === "hello") {
      hello = { id: short(message.provider?.id), name: short(message.provider?.name) };
      known = true;
      look();
    }
    if (open && channel !== GREETING)
      worker?.postMessage({ kind: "relay", channel: short(channel), message });
  });

  document.addEventListener("prerenderingchange", connect);
  document.addEventListener("freeze", () => worker?.postMessage({ kind: "sleep", asleep: true }));
  document.addEventListener("resume", () => worker?.postMessage({ kind: "sleep", asleep: false }));
  window.addEventListener("pageshow", ({ persisted }) => {
    if (!persisted) return;
    forget();
    connect();
  });

  document.addEventListener("DOMContentLoaded", () => {
    look();
    new MutationObserver(look).observe(document.head, {
      attributeFilter: ["name", "content"],
      characterData: true,
      childList: true,
      subtree: true,
    });
  });
}
