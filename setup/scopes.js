/**
 * What the names of a module are, and which of them must not be the same: for names.py, which
 * chooses them.
 *
 *     node setup/scopes.js MODULE MEMBERS FOUND.json
 *
 * MEMBERS is a pattern: the members of objects that are nobody else's, which get short names, too.
 * The text comes in pieces, where a name stands its number, or two numbers where a member and a
 * variable are one word, as in `{ids}`.
 */
import { readFileSync, writeFileSync } from "node:fs";
import { parse } from "acorn";
import { analyze } from "eslint-scope";

const [, , file, members, found] = process.argv;
const text = readFileSync(file, "utf-8");
const isOurs = new RegExp(members);
const version = { ecmaVersion: 2022, sourceType: "module" };
const tree = parse(text, { ...version, ranges: true });
const scopes = analyze(tree, version);
/** @type {{name: string, kind: string, rivals: number[]}[]} */
const names = [];
const taken = new Set(scopes.globalScope.through.map(({ identifier }) => identifier.name));
/** Where a name stands in the text: which variable it is, which member, and the word there. */
const spots = new Map();
const spotOf = ({ range, name }) => {
  if (!spots.has(range[0])) spots.set(range[0], { word: name });
  return spots.get(range[0]);
};

// Variables, and in which scopes each is seen: no other may have its name there.
const seenIn = new Map();
for (const scope of scopes.scopes)
  for (const variable of scope.variables) {
    if (!variable.defs.length) continue;
    const { name, identifiers, references } = variable;
    if (isExported(variable)) {
      taken.add(name);
      continue;
    }
    const number = names.push({ name, kind: scope.type, rivals: [] }) - 1;
    const seen = new Set([scope]);
    for (const { from } of references)
      for (let at = from; at !== scope; at = at.upper) seen.add(at);
    for (const at of seen) seenIn.set(at, [...(seenIn.get(at) ?? []), number]);
    for (const one of [...identifiers, ...references.map(({ identifier }) => identifier)])
      spotOf(one).variable = number;
  }
for (const together of seenIn.values())
  for (const one of together) names[one].rivals.push(...together.filter((other) => other !== one));

/** A class keeps its name, which shows, and so does what others import. */
function isExported({ defs: [{ type, node, parent }] }) {
  const { body } = tree;
  const isNamed = ({ declaration }) =>
    declaration && (declaration === node || declaration === parent);
  return type === "ClassName" || body.some(isNamed);
}

// Members of objects.
const memberOf = new Map();
const member = (key) => {
  if (!isOurs.test(key.name)) {
    taken.add(key.name);
    return;
  }
  if (!memberOf.has(key.name))
    memberOf.set(key.name, names.push({ name: key.name, kind: "member", rivals: [] }) - 1);
  spotOf(key).member = memberOf.get(key.name);
};

const visit = (node) => {
  const { type, key, computed, shorthand, property } = node;
  if (type === "MemberExpression" && !computed) member(property);
  if (/^(Property|PropertyDefinition|MethodDefinition)$/.test(type) && !computed) {
    if (key.type === "Identifier") member(key);
    if (shorthand) spotOf(key).isShort = true;
  }
  for (const part of Object.values(node).flat()) if (part?.type) visit(part);
};
visit(tree);

const pieces = [];
let at = 0;
for (const [start, { word, variable, member, isShort }] of [...spots].sort(([a], [b]) => a - b)) {
  if (member === undefined && variable === undefined) continue;
  // What one word says twice has two names where only one of them is ours to choose.
  const both = isShort ? [member ?? word, variable ?? word] : [member ?? variable];
  pieces.push(text.slice(at, start), both);
  at = start + word.length;
}
pieces.push(text.slice(at));
writeFileSync(found, JSON.stringify({ pieces, names, taken: [...taken] }));
