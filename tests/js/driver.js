/**
 * Apps that do what they are told, a command per line of JSON, for the tests that hold them against
 * ours: each command is answered with one line, what the app sent to whom, and its version.
 */
import { existsSync } from "node:fs";
import { formatTree } from "../../js/text.js";

// As it is handed out, where `python setup/page.py` has made that: with short names.
const shipped = new URL("../../src/sightline/js/sightline.js", import.meta.url);
const { App } = await import(existsSync(shipped) ? shipped : "../../js/sightline.js");

const apps = new Map();

/** A descriptor as JSON has it, with something to call for each of its actions. */
function called(descriptor) {
  const { actions, items, ...rest } = descriptor;
  const made = { ...rest };
  if (actions) {
    made.actions = Object.fromEntries(
      Object.entries(actions).map(([name, options]) => [name, { ...options, handler: () => {} }]),
    );
  }
  if (items !== undefined) made.items = items?.map(called) ?? null;
  return made;
}

const commands = {
  open: ({ app: id, unknown = [] }) => {
    apps.get(id)?.app.close();
    const app = new App("root", "Root", { coalesce: 1e9 });
    app.info.capabilities = app.info.capabilities.filter((name) => !unknown.includes(name));
    apps.set(id, { app, lines: new Map(), said: [] });
  },
  register: ({ app: id, path, descriptor }) => {
    const { app } = apps.get(id);
    app.register(path, called(descriptor));
    return { tree: app.tree(), text: JSON.stringify(app.tree()) };
  },
  update: ({ app: id, path, change }) => {
    const { app } = apps.get(id);
    app.update(path, change);
    return { tree: app.tree() };
  },
  connect: ({ app: id, line }) => {
    const own = apps.get(id);
    own.lines.set(
      line,
      own.app.connect((text) => own.said.push([line, text])),
    );
  },
  receive: async ({ app: id, line, text }) => {
    apps.get(id).lines.get(line)?.receive(text);
    // A query is answered in a microtask or two.
    await new Promise((resolve) => setImmediate(resolve));
  },
  close: ({ app: id, line }) => {
    apps.get(id).lines.get(line)?.close();
    apps.get(id).lines.delete(line);
  },
  flush: ({ app: id }) => apps.get(id).app.flush(),
  text: ({ tree }) => ({ text: formatTree(tree) }),
};

async function answered(line) {
  const command = JSON.parse(line);
  let answer;
  try {
    answer = (await commands[command.do](command)) ?? {};
  } catch (error) {
    answer = { error: error.message };
  }
  const own = apps.get(command.app);
  const said = own?.said.splice(0) ?? [];
  return JSON.stringify({ ...answer, said, version: own?.app.version });
}

let rest = "";
process.stdin.setEncoding("utf8");
for await (const chunk of process.stdin) {
  const lines = (rest + chunk).split("\n");
  rest = lines.pop();
  for (const line of lines) process.stdout.write(`${await answered(line)}\n`);
}
process.exit(0);
