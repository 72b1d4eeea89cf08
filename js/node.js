/**
 * An app of `sightline.js` in Node: on the server of the `ws` package, or on the standard streams.
 */

const { process: streams } = /** @type {any} */ (globalThis);
const isLoopback = (host) => /^(localhost|127(\.\d+){3}|\[::1\])(:\d+)?$/i.test(host);

/**
 * Serve an app on a `WebSocketServer` of the `ws` package. Only this machine's names, no web page
 * and, with a token, nobody without it gets in, unless they are named.
 * @param {import("./sightline.js").App} app
 * @param {any} server
 * @param {{origins?: string[], hosts?: string[], token?: string}} [options]
 * @returns {() => void} ends every connection that it took
 */
export function serve(app, server, { origins = [], hosts, token } = {}) {
  if (hosts?.some((host) => !isLoopback(host)) && !token) {
    throw new TypeError("a host that other machines reach takes a token");
  }
  const taken = new Set();
  const take = (socket, request) => {
    const { headers } = request;
    const host = (headers.host ?? "").toLowerCase();
    const isOurs = hosts ? hosts.includes(host) : isLoopback(host);
    const isWelcome = headers.origin === undefined || origins.includes(headers.origin);
    if (!isOurs || !isWelcome || (token && tokenOf(headers) !== token)) {
      // RFC 6455 §7.4.1: 1008 where a policy is broken.
      socket.close(1008, "not allowed");
      return;
    }
    const line = app.connect((text) => socket.send(text), {
      buffered: () => socket.bufferedAmount,
    });
    taken.add(socket);
    socket.on("message", (data) => line.receive(textOf(data)));
    socket.on("error", () => socket.terminate());
    socket.on("close", () => {
      taken.delete(socket);
      line.close();
    });
  };
  server.on("connection", take);
  return () => {
    server.off("connection", take);
    for (const socket of taken) socket.close();
  };
}

/** The token that is shown, by header or by subprotocol. */
function tokenOf(headers) {
  const [, bearer] = /^bearer (.*)$/i.exec(headers.authorization ?? "") ?? [];
  const offered = (headers["sec-websocket-protocol"] ?? "").split(",").map((name) => name.trim());
  const shown = offered.find((name) => name.startsWith("slop.bearer."));
  const text = shown?.slice("slop.bearer.".length).replaceAll("-", "+").replaceAll("_", "/");
  return bearer ?? (text && atob(text));
}

/**
 * Serve the program that started this one: a message per line on stdin and stdout, until it ends.
 * @param {import("./sightline.js").App} app
 * @param {{input?: any, output?: any}} [options]
 */
export async function serveStdio(app, { input = streams.stdin, output = streams.stdout } = {}) {
  const line = app.connect((text) => output.write(`${text}\n`), {
    buffered: () => output.writableLength,
  });
  let rest = new Uint8Array();
  for await (const chunk of input) {
    let start = 0;
    for (let end = chunk.indexOf(10); end >= 0; end = chunk.indexOf(10, start)) {
      line.receive(textOf(joined(rest, chunk.subarray(start, end))));
      rest = new Uint8Array();
      start = end + 1;
    }
    rest = joined(rest, chunk.subarray(start));
  }
  line.close();
}

function joined(one, other) {
  const both = new Uint8Array(one.length + other.length);
  both.set(one);
  both.set(other, one.length);
  return both;
}

/** What bytes say; themselves, which no app takes for a message, where they are no text. */
function textOf(data) {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(data);
  } catch {
    return data;
  }
}
