/** The mailbox of `support/real.py`, as its author would write it in JavaScript. */
import { ActionError, App } from "../../js/sightline.js";

export function mailbox(options = {}) {
  const app = new App("app", "Live", { coalesce: 0, ...options });
  const state = { n: 0, props: { label: "Inbox" }, done: [], goOn: () => {} };
  state.messages = [
    [1, 1],
    [2, 0.5],
    [3, 0.1],
  ].map(([n, salience]) => ({
    id: `msg-${n}`,
    type: "item",
    props: { subject: `Message ${n}` },
    meta: { salience },
    items: [{ id: "body", type: "document" }],
  }));
  const waiting = new Promise((resolve) => {
    state.goOn = resolve;
  });
  const remove = (path) => {
    const own = path.split("/").at(-1);
    state.messages.splice(0, Infinity, ...state.messages.filter(({ id }) => id !== own));
  };
  app.node("/", () => ({ type: "root", props: { n: state.n } }));
  app.register("me", { type: "context", props: { user: "ada" } });
  app.node("inbox", () => ({
    type: "collection",
    props: state.props,
    summary: "3 messages",
    meta: { salience: 0.9 },
    items: state.messages,
  }));
  const lazy = { pinned: true, total_children: 7, summary: "7 notes" };
  app.register("notes", { type: "group", children: null, meta: lazy });
  app.children("notes", () =>
    Array.from({ length: 7 }, (_, n) => ({ id: `note-${n}`, type: "item" })),
  );
  const text = { type: "text", mime: "text/plain", summary: "how to read mail" };
  app.register("manual", { type: "document", content_ref: text });
  app.content("manual", () => "open it, then look");
  const act = (name, handler, params, options) =>
    app.action("/", name, handler, { params, ...options });
  act("count", () => ({ n: ++state.n }), undefined, { description: "Count one more." });
  act(
    "set",
    ({ path, key, value }) => {
      const own = path.replace(/^\/inbox/, "").replaceAll("/", "");
      const found = state.messages.find(({ id }) => id === own);
      if (own) found.props = { ...found.props, [key]: value };
      else state.props[key] = value;
    },
    {
      type: "object",
      properties: { path: { type: "string" }, key: { type: "string" }, value: {} },
      required: ["path", "key", "value"],
    },
  );
  act(
    "add",
    ({ path, node, index = 0 }) => {
      if (path === "/inbox") state.messages.splice(index, 0, node);
    },
    {
      type: "object",
      properties: {
        path: { type: "string" },
        node: { type: "object" },
        index: { type: "integer" },
      },
      required: ["path", "node"],
    },
  );
  act("remove", ({ path }) => remove(path), { path: "string" });
  act(
    "fill",
    ({ size }) => {
      const text = "x".repeat(10_000);
      const notes = Array.from({ length: Math.floor(size / text.length) + 1 }, (_, n) => ({
        id: `note-${n}`,
        props: { text },
      }));
      state.messages.splice(0, Infinity, ...notes);
    },
    { size: "integer" },
  );
  act("notify", ({ n }) => app.emit("ping", { n }), { n: "integer" });
  act(
    "export",
    ({ month = "may" }, call) =>
      call.task(async (task) => {
        task.report(0.5, `reading ${month}`);
        await Promise.race([
          waiting,
          new Promise((_, reject) =>
            task.signal.addEventListener("abort", () => reject(new Error("aborted"))),
          ),
        ]);
      }),
    { type: "object", properties: { month: { type: "string" } } },
  );
  act("echo", () => "heard");
  act("done", () => state.done);
  act(
    "knock",
    ({ times }) => void state.done.push(`knock ${times}`),
    { times: "integer" },
    {
      authorize: ({ times }) => times < 10,
      guard: () => (state.n ? "somebody is counting" : null),
    },
  );
  act("hang", () => new Promise(() => {}));
  act("fail", () => {
    throw new ActionError("conflict", "not now");
  });
  app.action("inbox", "archive_all", () => void state.messages.splice(0));
  // The later one counts: one shape and one name are one action, whatever the hole is called.
  app.action("inbox/{other}", "archive", ({ other }) => remove(`/inbox/not-${other}`));
  app.action("inbox/{own}", "archive", ({ own }) => remove(`/inbox/${own}`), {
    when: (props) => "subject" in props,
  });
  return { app, state };
}
