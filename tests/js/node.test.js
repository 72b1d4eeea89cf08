// Serving in Node, on a real server of the `ws` package.
import assert from "node:assert/strict";
import { once } from "node:events";
import { test } from "node:test";
import { serve } from "../../js/node.js";
import { App } from "../../js/sightline.js";

test("a ws server lets in who it should, and follows the app", async (t) => {
  const ws = await import("ws").catch(() => null);
  if (!ws) return t.skip("ws is not here: python setup/page.py tools");
  const server = new ws.WebSocketServer({ host: "127.0.0.1", port: 0, path: "/slop" });
  await once(server, "listening");
  const app = new App("app", "App", { coalesce: 0 });
  const stop = serve(app, server, { origins: ["https://a.example"], token: "t0ken" });
  const url = `ws://127.0.0.1:${server.address().port}/slop`;
  const bearer = `slop.bearer.${Buffer.from("t0ken").toString("base64url")}`;
  /** What comes first: a message, or the code with which it is closed. */
  const first = (protocols, headers) =>
    new Promise((resolve) => {
      const socket = new ws.WebSocket(url, protocols, { headers });
      socket.on("message", (data) => resolve([socket, JSON.parse(data)]));
      socket.on("close", (code) => resolve([socket, code]));
    });
  const Authorization = "Bearer t0ken";
  for (const [protocols, headers] of [
    [["slop"], {}],
    [["slop"], { Authorization: "Bearer other" }],
    [["slop"], { Authorization, Origin: "https://b.example" }],
    [["slop"], { Authorization, Host: "rebound.example" }],
  ]) {
    assert.equal((await first(protocols, headers))[1], 1008);
  }
  for (const [protocols, headers] of [
    [["slop", bearer], {}],
    [["slop"], { Authorization, Origin: "https://a.example" }],
  ]) {
    const [socket, hello] = await first(protocols, headers);
    assert.equal(hello.type, "hello");
    socket.send('{"type":"subscribe","id":"s"}');
    assert.equal(JSON.parse((await once(socket, "message"))[0]).type, "snapshot");
    app.register("n", { props: { n: hello.provider.epoch, at: Math.random() } });
    assert.equal(JSON.parse((await once(socket, "message"))[0]).type, "patch");
    socket.close();
  }
  assert.throws(() => serve(app, server, { hosts: ["far.example"] }), /takes a token/);
  stop();
  server.close();
});
