/**
 * Apps that do what they are told, for the tests that hold them against ours: each line is a list of
 * commands, of different apps, and is answered with one line: for each, what the app sent to whom,
 * and its version.
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

function withoutLast(text) {
  const message = JSON.parse(text);
  message.ops?.pop();
  return JSON.stringify(message);
}

const commands = {
  /** A forgetful app leaves the last operation out of each of its patches. */
  open: ({ app: id, options = {}, unknown = [], forgetful = false }) => {
    apps.get(id)?.app.close();
    const app = new App("root", "Root", { coalesce: 1e9, ...options });
    app.info.capabilities = app.info.capabilities.filter((name) => !unknown.includes(name));
    apps.set(id, { app, lines: new Map(), said: [], forgetful });
  },
  register: ({ app: id, path, descriptor }) => {
    const { app } = apps.get(id);
    app.register(path, called(descriptor));
    return { text: JSON.stringify(app.tree()) };
  },
  connect: ({ app: id, line }) => {
    const own = apps.get(id);
    own.lines.set(
      line,
      own.app.connect((text) => own.said.push([line, own.forgetful ? withoutLast(text) : text])),
    );
  },
  receive: ({ app: id, line, text }) => void apps.get(id).lines.get(line)?.receive(text),
  close: ({ app: id, line }) => {
    apps.get(id).lines.get(line)?.close();
    apps.get(id).lines.delete(line);
  },
  flush: ({ app: id }) => apps.get(id).app.flush(),
  text: ({ tree }) => ({ text: formatTree(tree) }),
};

function done(command) {
  try {
    return commands[command.do](command);
  } catch (error) {
    return { error: error.message };
  }
}

async function answered(line) {
  const given = JSON.parse(line);
  const answers = given.map(done);
  // A query is answered in a microtask or two.
  await new Promise((resolve) => setImmediate(resolve));
  return JSON.stringify(
    given.map(({ app }, at) => {
      const own = apps.get(app);
      return { ...answers[at], said: own?.said.splice(0) ?? [], version: own?.app.version };
    }),
  );
}

let rest = "";
process.stdin.setEncoding("utf8");
for await (const chunk of process.stdin) {
  const lines = (rest + chunk).split("\n");
  rest = lines.pop();
  for (const line of lines) process.stdout.write(`${await answered(line)}\n`);
}
process.exit(0);
