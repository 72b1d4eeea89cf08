/**
 * An app of `sightline.js` in Node: on the server of the `ws` package, or on the standard streams.
 */
/**
 * Serve an app on a `WebSocketServer` of the `ws` package. Only this machine's names, no web page
 * and, with a token, nobody without it gets in, unless they are named.
 * @param {import("./sightline.js").App} app
 * @param {any} server
 * @param {{origins?: string[], hosts?: string[], token?: string}} [options]
 * @returns {() => void} ends every connection that it took
 */
export declare function serve(app: import("./sightline.js").App, server: any, { origins, hosts, token }?: {
    origins?: string[];
    hosts?: string[];
    token?: string;
}): () => void;
/**
 * Serve the program that started this one: a message per line on stdin and stdout, until it ends.
 * @param {import("./sightline.js").App} app
 * @param {{input?: any, output?: any}} [options]
 */
export declare function serveStdio(app: import("./sightline.js").App, { input, output }?: {
    input?: any;
    output?: any;
}): Promise<void>;
