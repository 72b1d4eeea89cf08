// The provider for pages: what Python's tests cannot see from outside.
import assert from "node:assert/strict";
import { mock, test } from "node:test";
import { hook } from "../../js/react.js";
import { ActionError, App, legalId } from "../../js/sightline.js";

const ASK = { type: "subscribe", id: "s" };
const turn = () => new Promise((resolve) => setImmediate(resolve));

/** An app, and what it says to one consumer. */
function shown(options) {
  const said = [];
  const app = new App("app", "App", { coalesce: 0, ...options });
  const line = app.connect((text) => said.push(JSON.parse(text)), options);
  return { app, line, said, take: () => said.splice(0) };
}

test("an illegal registration says where and why, and changes nothing", () => {
  const { app } = shown();
  const before = app.tree();
  for (const [descriptor, why] of [
    [{ items: [{ id: "a/b" }] }, /'id' is missing or wrong, or unknown: a\/b/],
    [{ items: [{ id: "a" }, { id: "a" }] }, /'a' is given twice/],
    [{ props: { n: 1 }, properties: { n: 1 } }, /'properties' is given twice/],
    [{ window: { items: [] }, items: [] }, /'items' is given twice/],
    [{ props: { n: Number.NaN } }, /not JSON/],
    [{ props: { text: "\ud800" } }, /not JSON/],
    [{ meta: { salience: 2 } }, /'salience' is missing or wrong, or unknown: 2/],
    [{ typo: 1 }, /'typo' is missing or wrong, or unknown: 1/],
    [
      { actions: { go: { handler: () => 1, guard: 1 } } },
      /'guard' is missing or wrong, or unknown: 1/,
    ],
    [
      { actions: { go: { handler: () => 1, params: { n: { $ref: "#" } } } } },
      /'\$ref' is missing or wrong, or unknown/,
    ],
    [{ content_ref: { mime: "text/plain" } }, /'summary'/],
    [{ actions: { go: { label: "Go" } } }, /actions\.go: 'handler' is missing or wrong/],
  ]) {
    assert.throws(() => app.register("list", descriptor), why);
    assert.throws(() => app.register("list", descriptor), /^TypeError: \/list/);
  }
  assert.equal(app.tree(), before);
  assert.throws(() => new App("not an id"), /'id' is missing or wrong, or unknown/);
});

test("a root that is taken away gives way to the bare one, and a bare one to nothing", () => {
  const { app, line, take } = shown({ props: { label: "App", n: 1 } });
  app.register("list", {});
  app.unregister("/");
  line.receive(ASK);
  take();
  const { version } = app;
  const before = app.tree();
  app.unregister("/");
  app.flush();
  assert.equal(app.tree(), before);
  assert.deepEqual([app.version, take()], [version, []]);
  app.register("/", { props: { n: 2 } });
  app.unregister("/");
  app.flush();
  assert.deepEqual(app.tree(), before);
});

test("an action says what it is given to say, and no other takes its place", () => {
  const { app } = shown();
  for (const path of ["a", "a b"]) app.register(path, {});
  app.action("a", "b c", () => {}, {
    label: "",
    description: "",
    dangerous: false,
    estimate: null,
  });
  app.action("a b", "c", () => {});
  assert.deepEqual(
    app.tree().children.map((child) => child.affordances),
    [[{ action: "b c", label: "", description: "" }], [{ action: "c" }]],
  );
});

test("what says the same is the same object, and only what changed is told", () => {
  const { app, line, take } = shown();
  const items = [
    { id: 1, props: { n: 1 } },
    { id: 2, props: { n: 2 } },
  ];
  app.node("list", () => ({ type: "collection", items: items.map((item) => ({ ...item })) }));
  line.receive(ASK);
  const before = app.tree();
  app.refresh();
  assert.equal(app.tree(), before);
  items[1].props = { n: 3 };
  app.refresh("list");
  take();
  app.flush();
  assert.equal(app.tree().children[0].children[0], before.children[0].children[0]);
  const [{ ops, seq }] = take();
  assert.deepEqual([seq, ops], [1, [{ op: "replace", path: "/list/2/properties/n", value: 3 }]]);
  app.update("list/1", { props: { n: 9 }, meta: { salience: 1 } });
  app.flush();
  assert.equal(take()[0].ops.length, 1);
});

test("an observable value is shown while it is registered", () => {
  const { app } = shown();
  const listeners = new Set();
  const signal = {
    subscribe: (listener) => {
      listeners.add(listener);
      listener(1);
      return () => listeners.delete(listener);
    },
  };
  const stop = app.node("n", signal, (value) => ({ props: { value } }));
  assert.deepEqual(app.tree().children[0].properties, { value: 1 });
  for (const listener of listeners) listener(2);
  assert.deepEqual(app.tree().children[0].properties, { value: 2 });
  stop();
  assert.equal(listeners.size, 0);
  assert.equal(app.tree().children?.length ?? 0, 0);
});

test("one view is open, the others are stubs, and nothing in them is asked", () => {
  const { app } = shown();
  let asked = 0;
  app.view("inbox", () => ({ props: { unread: 2 } }), { summary: "2 unread" });
  app.view("done", () => ({ items: { a: {} } }), { summary: () => "1 done" });
  app.node("done/more", () => {
    asked += 1;
    return {};
  });
  const [inbox, done] = app.tree().children;
  assert.deepEqual([inbox.meta.focus, done.meta], [true, { summary: "1 done" }]);
  assert.deepEqual([done.children, asked], [undefined, 0]);
  app.focus("done");
  assert.deepEqual(
    app.tree().children[1].children.map((child) => child.id),
    ["a", "more"],
  );
  assert.equal(app.tree().children[0].properties, undefined);
  app.view("done", () => ({ props: { again: true } }));
  assert.deepEqual(app.tree().children[1].properties, { again: true });
  app.node("done", () => ({}));
  assert.deepEqual(
    app.tree().children.map((child) => child.meta?.focus),
    [true, undefined],
  );
});

test("a function that fails keeps its last good state, and a node says so", (t) => {
  t.mock.method(console, "error", () => {});
  const { app } = shown();
  let isBroken = false;
  app.node("list", () => (isBroken ? fail() : { props: { n: 1 } }));
  app.tree();
  isBroken = true;
  app.refresh();
  const [list, errors] = app.tree().children;
  assert.equal(list.properties.n, 1);
  assert.match(errors.children[0].properties.message, /^\/list could not be refreshed/);
  isBroken = false;
  app.refresh();
  assert.equal(app.tree().children.length, 1);
});

function fail() {
  throw new Error("secret");
}

test("an unexpected error is told to nobody", async (t) => {
  t.mock.method(console, "error", () => {});
  const { app, line, take } = shown();
  app.action("/", "fail", fail);
  app.action("/", "refuse", () => {
    throw new ActionError("conflict", "not now");
  });
  take();
  line.receive({ type: "invoke", id: "1", path: "/", action: "fail" });
  line.receive({ type: "invoke", id: "2", path: "/", action: "refuse" });
  await turn();
  await turn();
  const [one, other] = take();
  assert.deepEqual(one.error, { code: "internal", message: "the app failed" });
  assert.deepEqual(other.error, { code: "conflict", message: "not now" });
});

test("a reader that is slow gets one snapshot instead of what it missed", () => {
  mock.timers.enable({ apis: ["setInterval", "setTimeout"] });
  let waiting = 0;
  const { app, line, take } = shown({ buffered: () => waiting });
  let n = 0;
  app.node("n", () => ({ props: { n } }));
  line.receive(ASK);
  take();
  waiting = 2 ** 20;
  for (n = 1; n < 50; n++) {
    app.refresh();
    app.flush();
  }
  assert.deepEqual(take(), []);
  waiting = 0;
  mock.timers.tick(100);
  const [{ type, seq, tree }, ...more] = take();
  assert.deepEqual([type, seq, tree.children[0].properties, more], ["snapshot", 0, { n: 49 }, []]);
  mock.timers.reset();
});

/** A window as far as a provider uses it; what is posted comes back to itself, as in a browser. */
function fakeWindow() {
  const listeners = new Set();
  const page = {
    origin: "https://a.example",
    posted: [],
    addEventListener: (_, listener) => listeners.add(listener),
    removeEventListener: (_, listener) => listeners.delete(listener),
    postMessage: (data, target) => {
      page.posted.push([data, target]);
      page.hear(data);
    },
    hear: (data, from = {}) => {
      for (const one of listeners) one({ source: page, origin: page.origin, data, ...from });
    },
    take: () => page.posted.splice(0).map(([data]) => data),
  };
  return page;
}

test("a page is spoken to in the deployed format, by its own window only", async () => {
  const page = fakeWindow();
  const app = new App("app", "App", { coalesce: 0 });
  const stop = app.post({ window: page });
  const say = (message, more = {}, from) => page.hear({ slop: true, message, ...more }, from);
  say(ASK);
  for (const from of [{ source: {} }, { origin: "https://b.example" }])
    say({ type: "connect" }, {}, from);
  page.hear({ message: { type: "connect" } });
  assert.deepEqual(page.take(), []);
  say({ type: "connect" });
  say({ type: "connect" }, { __slop_relay: true });
  assert.deepEqual(page.posted[0][1], "*");
  assert.deepEqual(
    page.take().map(({ slop, message }) => [slop, message.type]),
    [
      [true, "hello"],
      [true, "hello"],
    ],
  );
  say(ASK);
  say({ type: "connect" }, { channel: "b" });
  say(ASK, { channel: "b" });
  const answers = page.take().map(({ channel, message }) => [channel, message.type]);
  assert.deepEqual(answers, [
    [undefined, "snapshot"],
    ["b", "hello"],
    ["b", "snapshot"],
  ]);
  say({ type: "disconnect" }, { channel: "b" });
  app.register("x", {});
  app.flush();
  assert.deepEqual(
    page.take().map(({ channel, message }) => [channel, message.type]),
    [[undefined, "patch"]],
  );
  // Whoever connects anew takes the ids that were used before; nobody else's subscription ends.
  say({ type: "connect" });
  say(ASK);
  assert.deepEqual(
    page.take().map(({ message }) => message.type),
    ["hello", "snapshot"],
  );
  stop();
  say({ type: "connect" });
  assert.deepEqual(page.take(), []);
});

test("a hub is dialled again, after waits that grow, and told who speaks", () => {
  mock.timers.enable({ apis: ["setTimeout"] });
  const sockets = [];
  class Socket {
    constructor(url, protocols) {
      Object.assign(this, { url, protocols, sent: [], bufferedAmount: 0 });
      sockets.push(this);
    }
    send(text) {
      this.sent.push(JSON.parse(text));
    }
    close() {
      this.onclose();
    }
  }
  const app = new App("app", "App", { coalesce: 0 });
  const states = [];
  const stop = app.dial(undefined, {
    WebSocket: Socket,
    wait: 100,
    longest: 400,
    onState: (is) => states.push(is),
  });
  assert.deepEqual([sockets[0].url, sockets[0].protocols], ["ws://127.0.0.1:9339/slop", ["slop"]]);
  for (const longest of [100, 200, 400, 400]) {
    const count = sockets.length;
    sockets.at(-1).onclose();
    mock.timers.tick(longest / 2 - 1);
    assert.equal(sockets.length, count);
    mock.timers.tick(longest / 2 + 1);
    assert.equal(sockets.length, count + 1);
  }
  const open = sockets.at(-1);
  open.onopen();
  open.onmessage({ data: JSON.stringify(ASK) });
  assert.deepEqual(
    open.sent.map(({ type }) => type),
    ["hello", "snapshot"],
  );
  stop();
  mock.timers.tick(10_000);
  assert.deepEqual([states, sockets.length], [[true, false], 5]);
  mock.timers.reset();
});

test("foreign strings become legal ids, each its own", () => {
  assert.deepEqual(["msg-42", "src/main.py", "a~b", "type", "", "100%"].map(legalId), [
    "msg-42",
    "src%2Fmain.py",
    "a%7Eb",
    "%74ype",
    "%",
    "100%25",
  ]);
});

test("a component shows its state while it is mounted", async (t) => {
  const { default: React } = await import("react").catch(() => ({ default: null }));
  if (!React) return t.skip("react is not here: python setup/page.py tools");
  globalThis.IS_REACT_ACT_ENVIRONMENT = true;
  t.mock.method(console, "error", () => {});
  const { act, create } = (await import("react-test-renderer")).default;
  const useSlop = hook(React);
  const app = new App("app", "App", { coalesce: 0 });
  const Cart = ({ count }) => {
    useSlop(app, "cart", () => ({ type: "view", props: { count } }));
    return null;
  };
  let root;
  await act(() => {
    root = create(React.createElement(Cart, { count: 1 }));
  });
  assert.deepEqual(app.tree().children[0].properties, { count: 1 });
  await act(() => root.update(React.createElement(Cart, { count: 2 })));
  assert.deepEqual(app.tree().children[0].properties, { count: 2 });
  await act(() => root.unmount());
  assert.equal(app.tree().children?.length ?? 0, 0);
});

test("functions are asked in pieces after an action, and its result comes after its changes", async (t) => {
  let now = 0;
  t.mock.method(performance, "now", () => {
    now += 0.3;
    return now;
  });
  const { app, line, take } = shown({ coalesce: 1e9 });
  const counts = Array.from({ length: 20 }, () => 0);
  counts.forEach((_, at) => {
    app.node(`n${at}`, () => ({ props: { count: counts[at] } }));
  });
  app.action("/", "count", () => void counts.fill(1));
  line.receive(ASK);
  take();
  let pauses = 0;
  globalThis.scheduler = {
    yield: async () => {
      pauses += 1;
      assert.deepEqual(take(), []);
      if (pauses > 1) return;
      // A page that goes on meanwhile: what was asked before is asked again.
      counts[0] = 7;
      app.refresh("n0");
      app.unregister("n19");
    },
  };
  line.receive({ type: "invoke", id: "1", path: "/", action: "count" });
  for (let n = 0; n < 40; n++) await turn();
  delete globalThis.scheduler;
  const [patch, result, ...more] = take();
  assert.deepEqual([patch.type, result.type, result.status, more], ["patch", "result", "ok", []]);
  assert.ok(pauses > 3, `${pauses}`);
  assert.deepEqual(
    app.tree().children.map((node) => node.properties.count),
    [7, ...counts.slice(1, 19)],
  );
  assert.equal(patch.ops.length, 20);
});

test("an author's mistake is said with the node, and costs nothing else", async (t) => {
  const logged = [];
  t.mock.method(console, "error", (...words) => logged.push(words.join(" ")));
  const { app, line, take } = shown();
  const cycle = {};
  cycle.self = cycle;
  let given = { props: { n: {} } };
  app.node("other", () => ({ props: { fine: true } }));
  app.node("list", () => given);
  app.node("again", () => ({ props: { seen: app.tree().id } }));
  app.tree();
  for (const [wrong, why] of [
    [{ items: [{ id: "a" }, { id: "a" }] }, /\/list: 'a' is given twice/],
    [{ items: [{ props: {} }] }, /\/list: 'id' is missing or wrong, or unknown: undefined/],
    [{ items: [undefined] }, /\/list\/: 'descriptor' is missing or wrong, or unknown: undefined/],
    [{ props: cycle }, /\/list\.self\.self.*not JSON/],
    [{ props: { n: 1n } }, /\/list\.n: not JSON, or too large: 1/],
    [{ props: { n: new Map() } }, /\/list\.n: not JSON, or too large: \[object Map\]/],
    [{ meta: { salience: 1n } }, /\/list: 'salience' is missing or wrong, or unknown: 1/],
    [
      Promise.reject(new Error("later")),
      /\/list: 'descriptor' is missing or wrong, or unknown: \[object Promise\]/,
    ],
  ]) {
    given = wrong;
    app.refresh("list");
    const [other, list, , errors] = app.tree().children;
    assert.deepEqual([other.properties.fine, list.properties.n], [true, {}]);
    assert.match(errors.children[0].properties.message, /^\/list could not be refreshed/);
    assert.match(logged.pop(), why);
  }
  given = { items: Array.from({ length: 100_000 }, (_, id) => ({ id })) };
  app.refresh("list");
  assert.equal(app.tree().children[1].children.length, 100_000);
  for (const [call, why] of [
    [
      () => app.node("x", undefined),
      /^TypeError: x: 'source' is missing or wrong, or unknown: undefined/,
    ],
    [() => app.update("list/no", { props: {} }), /^TypeError: list\/no: there is no such node/],
    [
      () => app.update("list", { props: "text" }),
      /^TypeError: \/list: 'properties' is missing or wrong, or unknown: text/,
    ],
    [() => app.action("a/{id}/{id}", "go", () => {}), /^TypeError: a\/\{id\}\/\{id\}: 'hole' is/],
    [
      () => app.children("a/{id", () => []),
      /^TypeError: a\/\{id: 'hole' is missing or wrong, or unknown: \{id/,
    ],
  ])
    assert.throws(call, why);
  // An action that takes away what it names was done all the same.
  app.action("list", "drop", () => app.unregister("list"), { refreshes: ["list", "other"] });
  take();
  line.receive({ type: "invoke", id: "1", path: "/list", action: "drop" });
  for (let n = 0; n < 5; n++) await turn();
  assert.equal(take().at(-1).status, "ok");
  assert.match(logged.pop(), /drop TypeError: list: there is no such node/);
});
