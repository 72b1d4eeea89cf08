// What docs/javascript.md shows in Node runs, and the types say what the module does.
import assert from "node:assert/strict";
import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { copyFile, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { App } from "../../js/sightline.js";

const at = (path) => new URL(`../../${path}`, import.meta.url);
const page = await readFile(at("docs/javascript.md"), "utf8");
const [inPage, inNode, inReact, ...others] = [...page.matchAll(/^```js\n(.*?)^```$/gms)].map(
  ([, code]) => code,
);
const tools = await import("ws").catch(() => null);
const skip = !tools && "python setup/page.py tools brings what this needs";

/** Code whose imports are found from anywhere. */
const resolved = (code) =>
  code.replace(/(?<=from ")[^"]+/g, (name) =>
    name.startsWith("./") ? at(`js/${name}`).href : import.meta.resolve(name),
  );
const run = (code) => import(`data:text/javascript,${encodeURIComponent(resolved(code))}`);

test("every block is one that is run here, or in a browser", () => {
  assert.deepEqual([/app\.post/.test(inPage), others], [true, []]);
});

test("the program in Node is served on a socket and on its streams", { skip }, async () => {
  const probe = createServer().listen(0, "127.0.0.1");
  await once(probe, "listening");
  const { port } = probe.address();
  probe.close();
  const own = `import { App } from "./sightline.js";\nconst app = new App("docs", "Docs");\n`;
  const code = resolved(own + inNode.replace("8765", String(port)));
  const child = spawn(process.execPath, ["--input-type=module", "--eval", code]);
  const lines = createInterface(child.stdout)[Symbol.asyncIterator]();
  const told = async () => JSON.parse((await lines.next()).value);
  assert.equal((await told()).provider.id, "docs");
  child.stdin.write('{"type":"subscribe","id":"s"}\n');
  assert.equal((await told()).tree.id, "docs");
  const socket = new tools.WebSocket(`ws://127.0.0.1:${port}/slop`);
  const [hello] = await once(socket, "message");
  assert.equal(JSON.parse(hello).provider.id, "docs");
  socket.close();
  child.kill();
});

test("the component shows what its last render knew", { skip }, async (t) => {
  globalThis.IS_REACT_ACT_ENVIRONMENT = true;
  t.mock.method(console, "error", () => {});
  const { default: React } = await import("react");
  const { act, create } = (await import("react-test-renderer")).default;
  globalThis.app = new App("docs", "Docs");
  const { Cart } = await run(`${inReact}\nexport { Cart };`);
  let root;
  await act(() => {
    root = create(React.createElement(Cart, { items: [1] }));
  });
  await act(() => root.update(React.createElement(Cart, { items: [1, 2] })));
  assert.deepEqual(app.tree().children[0].properties, { count: 2 });
  await act(() => root.unmount());
  assert.equal(app.tree().children?.length ?? 0, 0);
});

test("the types allow what the page shows, and what the module is", { skip }, async () => {
  const folder = await mkdtemp(join(tmpdir(), "types-"));
  for (const name of ["sightline", "node", "react"])
    await copyFile(at(`js/${name}.d.ts`), join(folder, `${name}.d.ts`));
  await copyFile(at("js/sightline.js"), join(folder, "own.js"));
  const given = "declare const app: import('./sightline.js').App;\n";
  const files = {
    "packages.d.ts": 'declare module "ws";\ndeclare module "react";\n',
    "in-page.ts":
      "declare const todos: { id: string; title: string; done: boolean }[];\n" +
      `declare const addTodo: (title: string) => void, finish: (id: string) => void;\n${inPage}`,
    "in-node.ts": inNode + given,
    "in-react.ts": inReact + given,
    "same.ts":
      'import * as own from "./own.js";\nimport * as said from "./sightline.js";\n' +
      "export const all: typeof said = own;\nexport const app: said.App = new own.App('a');\n" +
      "// @ts-expect-error: there is no such method\napp.nod('x', () => ({}));\n" +
      "// @ts-expect-error: a handler is a function\napp.action('/', 'go', 1);\n",
    "tsconfig.json": JSON.stringify({
      extends: fileURLToPath(at("tsconfig.json")),
      compilerOptions: { checkJs: false, allowJs: true },
      include: ["*.ts"],
    }),
  };
  for (const [name, text] of Object.entries(files)) await writeFile(join(folder, name), text);
  const tsc = fileURLToPath(at("node_modules/typescript/bin/tsc"));
  const checked = promisify(execFile)(process.execPath, [tsc], { cwd: folder });
  const { stdout } = await checked.catch((error) => error);
  await rm(folder, { recursive: true });
  assert.equal(stdout, "");
});
