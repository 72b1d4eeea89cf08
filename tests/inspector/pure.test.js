// The modules of the page that need no browser.
import assert from "node:assert/strict";
import { test } from "node:test";
import { Folds } from "app/folds";
import { count, dollars, seconds, share } from "app/html";

// A tree by the depths of its lines, and how many lines are below each.
const DEPTHS = [0, 1, 2, 3, 2, 1, 2, 2, 1];
const below = (line) => {
  const end = DEPTHS.findIndex((depth, at) => at > line && depth <= DEPTHS[line]);
  return (end < 0 ? DEPTHS.length : end) - line - 1;
};

test("whatever is folded, rows and lines find each other, and only what is below is hidden", () => {
  for (let chosen = 0; chosen < 1 << DEPTHS.length; chosen += 1) {
    const lines = DEPTHS.map((_, line) => line);
    const folded = new Map(lines.filter((l) => chosen & (1 << l)).map((l) => [l, below(l)]));
    const hidden = (l) => [...folded].some(([own, many]) => l > own && l <= own + many);
    const seen = lines.filter((line) => !hidden(line));
    const folds = new Folds(DEPTHS.length, folded);
    assert.equal(folds.count, seen.length);
    assert.deepEqual(
      seen.map((_, row) => folds.lineAt(row)),
      seen,
    );
    for (const line of lines) {
      assert.equal(folds.rowOf(line), seen.indexOf(line));
      assert.notEqual(folds.reveal(line).rowOf(line), -1);
    }
  }
});

test("a figure that nobody knows is never a zero", () => {
  assert.deepEqual(
    [count(null), share(0, 0), dollars(null), seconds(undefined)],
    ["–", "–", "unpriced", "–"],
  );
  assert.deepEqual(
    [count(0), share(1, 3), dollars(0.0042), seconds(1499)],
    ["0", "33 %", "$0.00420", "1.5 s"],
  );
});
