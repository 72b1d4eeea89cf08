// Laws of Picture and Changes for pairs of answers: one pair in each line of a file.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { differencesOf } from "app/differences";
import { rowsOf, sumOf } from "app/map";

const [, , file, control] = process.argv;

// The rule before: the tokens in common fill the rows from the front.
const filled = (rows, common) => {
  let left = common;
  return rows.map((row) => {
    const same = Math.max(0, Math.min(row.kept, left));
    left -= same;
    return { ...row, same, reusable: same };
  });
};

const check = ({ before, after }) => {
  const { as_before: asBefore, common_tokens: common } = after.drift;
  const own = rowsOf(after.receipt, asBefore);
  const rows = control ? filled(own, common) : own;
  assert.equal(sumOf(rows, "kept"), after.receipt.total);
  assert.equal(sumOf(rows, "reusable"), common, "the sum is the published reuse");
  for (const { name, kept, same, reusable } of rows)
    assert.ok(0 <= reusable && reusable <= same && same <= kept, `${name} has at most its tokens`);
  for (const { name, changes } of differencesOf(before, after)) {
    const isSame = changes.every(({ kind }) => kind === "same");
    for (const { kept, same } of rows.filter((row) => row.name === name && row.kept > 0)) {
      if (isSame) assert.equal(same, kept, `${name} is the same: wholly as before`);
      else assert.ok(same < kept, `${name} changed: never wholly as before`);
    }
  }
};

const broken = [];
const pairs = readFileSync(file, "utf8")
  .trim()
  .split("\n")
  .map((line) => JSON.parse(line));
for (const [at, pair] of pairs.entries())
  try {
    check(pair);
  } catch (error) {
    broken.push(`${pair.name} ${at}: ${error.message}`);
  }
console.log(JSON.stringify({ pairs: pairs.length, broken: broken.length }));
for (const line of broken.slice(0, 5)) console.log(line);
