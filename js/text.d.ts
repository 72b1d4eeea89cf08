/** The canonical text of a tree, as a model reads it: for a page that shows what it shares. */
/**
 * The canonical text of a tree, as a model reads it: one line per node.
 * @param {import("./sightline.js").Node} node @returns {string}
 */
export declare function formatTree(node: import("./sightline.js").Node, indent?: string): string;
