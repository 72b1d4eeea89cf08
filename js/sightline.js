/**
 * An app in a web page or in Node that a Sightline host can see and use: its state as a tree, its
 * functions as actions. One module, no dependencies, with the semantics of `App` in Python.
 *
 *     const app = new App("todos", "Todos");
 *     app.node("list", () => ({ type: "collection", items: todos.map(...) }));
 *     app.action("list", "add", ({ title }) => add(title), { params: { title: "string" } });
 *     app.post();
 *
 * Trees never change: a later one shares with the one before whatever says the same, so that
 * comparing two costs what changed.
 *
 * @typedef {null | boolean | number | string | any[] | {[name: string]: any}} Json
 * @typedef {{id: string, type: string, properties?: {[name: string]: any},
 *   meta?: {[name: string]: any}, affordances?: any[], content_ref?: any,
 *   children?: Node[] | null}} Node
 * @typedef {Iterable<Descriptor> | {[id: string]: Descriptor} | null} Items
 * @typedef {{id?: string | number, type?: string, props?: object, properties?: object,
 *   summary?: string, items?: Items, children?: Items, meta?: object,
 *   window?: {items: Descriptor[], total?: number, offset?: number},
 *   actions?: {[name: string]: Handler | (ActionOptions & {handler: Handler})},
 *   content_ref?: object, contentRef?: object}} Descriptor
 * @typedef {{path: string, action: string, params: {[name: string]: any}, node: Node,
 *   holes: {[name: string]: string}, task: (work: Work) => void}} Call
 * @typedef {(given: any, call: Call) => any} Handler
 * @typedef {{params?: object, label?: string, description?: string, dangerous?: boolean,
 *   idempotent?: boolean, estimate?: "instant" | "fast" | "slow" | "async", returns?: object,
 *   when?: (properties: any) => any, guard?: Handler, authorize?: Handler,
 *   refreshes?: string[]}} ActionOptions
 * @typedef {{id: string, signal: AbortSignal,
 *   report: (progress?: number | null, message?: string) => void}} Task
 * @typedef {(task: Task) => any} Work
 * @typedef {{subscribe: (listener: (value: any) => void) => any}} Observable
 * @typedef {{receive: (message: any) => void, close: () => void}} Connection
 */

const FIELDS = ["properties", "meta", "affordances", "content_ref"];
const RESERVED = [...FIELDS, "children", "id", "type"];
const CAPABILITIES =
  "state patches affordances attention windowing async content_refs " +
  "x-base x-fields x-resume x-retain x-actions-hint x-served";
const LEVELS = 64;
const ID_BYTES = 256;
const STRING_BYTES = 2 ** 18;
const NESTING = 640;
const ASKED_CHARS = 2 ** 20;
const MESSAGE_CHARS = 2 ** 24;
const SNAPSHOT_NODES = 50_000;
const PATCH_OPS = 1024;
const QUEUE_BYTES = 2 ** 18;
const MOST = 64;
const KEPT_VERSIONS = 16;
const WINDOW = 50;
const LOOK_UP = 10_000;
const PIECE = 2 ** 17;
const LAST = 2 ** 30;
const SLICE_MS = 0.5;
const ALARM = { salience: 1, urgency: "high" };

/** What an action or a hook throws to say why not, by one of the protocol's codes. */
export class ActionError extends Error {
  /** @param {string} code @param {string} message */
  constructor(code, message) {
    super(message);
    this.code = code;
  }
}

/** @returns {never} */
function refuse(code, message) {
  throw new ActionError(code, message);
}

/** What may be said of an error: its own reason, or that there is one, which is in the log. */
function reasonOf(error, ...where) {
  if (error instanceof ActionError) return { code: error.code, message: error.message };
  console.error(...where, error);
  return { code: "internal", message: "the app failed" };
}

/** @returns {never} */
const missing = (path) => refuse("not_found", `${path}: there is no such node`);

/** @returns {never} */
function fault(where, reason) {
  throw new TypeError(`${isText(where) ? where : format(where)}: ${reason}`);
}

/** @returns {never} */
const twice = (where, name) => fault(where, `'${name}' is given twice`);

/** @returns {never} */
const wrong = (where, name, value) =>
  fault(where, `'${name}' is missing or wrong, or unknown: ${brief(value)}`);

// JSON

const { isArray } = Array;
const { isSafeInteger } = Number;
const { max, min, random: chance } = Math;
const { assign, entries, fromEntries, hasOwn, keys, values } = Object;
const write = JSON.stringify;
const encoder = new TextEncoder();
const bytes = (text) => encoder.encode(text).length;
const fits = (text, most) =>
  text.isWellFormed() && (text.length * 3 <= most || bytes(text) <= most);
const kindOf = (value) => ({}).toString.call(value);
const isObject = (value) => kindOf(value) === "[object Object]";
const isText = (value) => typeof value === "string";
/** @param {any} value @returns {value is (...given: any[]) => any} */
const isFunction = (value) => typeof value === "function";
const asIs = (value) => value;
const isAny = () => true;
const isFlag = (value) => typeof value === "boolean";
const isCount = (value) => isSafeInteger(value) && value >= 0;
const isNumber = (value) => typeof value === "number";
const isShare = (value) => isNumber(value) && value >= 0 && value <= 1;
const isNames = (value) => isArray(value) && value.every(isText);
const isWindow = (value) => isArray(value) && value.length === 2 && value.every(isCount);
const random = () => chance().toString(36).slice(2);
/** A value in an error's text, whatever it is. */
const brief = (value) => String(value).slice(0, 80);

/** Whether two values say the same, order of members included. */
function same(a, b) {
  if (a === b || Object(a) !== a || kindOf(a) !== kindOf(b)) return a === b;
  const others = keys(b);
  const names = keys(a);
  return (
    names.length === others.length &&
    names.every((name, at) => name === others[at] && same(a[name], b[name]))
  );
}

/** A copy of a value that is JSON; members that are undefined are left out. */
function clean(value, path, level = 0) {
  if (isFunction(value?.toJSON)) value = value.toJSON();
  if (value === null || isFlag(value) || Number.isFinite(value)) return value;
  if (isText(value) && fits(value, STRING_BYTES)) return value;
  if (level++ < LEVELS) {
    if (isArray(value)) return value.map((item) => clean(item, path, level));
    if (isObject(value)) {
      const members = entries(value).filter(([, member]) => member !== undefined);
      return fromEntries(
        members.map(([key, member]) => [clean(key, path), clean(member, `${path}.${key}`, level)]),
      );
    }
  }
  fault(path, `not JSON, or too large: ${brief(value)}`);
}

/** What was known, where the same is said again; else a copy of what is said, if anything is. */
function settled(known, given, ids) {
  if (given == null) return undefined;
  if (same(known, given)) return known;
  const copy = clean(given, format(ids));
  return same(known, copy) ? known : copy;
}

/** A node with some members, itself if it has them. */
const changed = (node, members) =>
  keys(members).every((name) => members[name] === node[name]) ? node : { ...node, ...members };

/** The list that was known, if the new one has the very same nodes. */
function keptList(known, list) {
  return known?.length === list.length && list.every((item, at) => item === known[at])
    ? known
    : list;
}

// Ids and paths

const isId = (id) =>
  isText(id) && id && !RESERVED.includes(id) && !/[/~]/.test(id) && fits(id, ID_BYTES);

const checkedId = (id, where) => (isId(id) ? id : wrong(where, "id", id));

/**
 * The legal id of a string that is not too long for one: a URL, a file path, a foreign key.
 * @param {string} text
 */
export function legalId(text) {
  const plain = text.replace(/[%/~\p{Cc}\p{Zl}\p{Zp}]/gu, (char) =>
    encodeURIComponent(char).replace("~", "%7E"),
  );
  const legal = RESERVED.includes(plain)
    ? `%${plain.charCodeAt(0).toString(16)}${plain.slice(1)}`
    : plain;
  return checkedId(legal || "%", text.slice(0, 80));
}

/** The ids of a path; an empty one, which no node has, where two slashes meet. */
const split = (path) => path.split("/").filter((id, at, all) => id || (at && at < all.length - 1));

const checkedDepth = (ids, where) =>
  ids.length < LEVELS ? ids : wrong(where, "levels", ids.length);

const checkedIds = (path) =>
  checkedDepth(
    split(path).map((id) => checkedId(id, path)),
    path,
  );

const format = (ids) => `/${ids.join("/")}`;
const isWithin = (path, other) => `${path}/`.startsWith(`${other}/`);
const escaped = (token) => token.replaceAll("~", "~0").replaceAll("/", "~1");
const childOf = (node, id) => node?.children?.find((child) => child.id === id);
const nodeAt = (node, ids) => ids.reduce(childOf, node);
const totalOf = (node) => node.meta?.total_children ?? node.children?.length ?? 0;

/** A node of which something changed, with the way to it made anew. */
const changeAt = (node, ids, how) =>
  ids.length
    ? {
        ...node,
        children: node.children.map((child) =>
          child.id === ids[0] ? changeAt(child, ids.slice(1), how) : child,
        ),
      }
    : how(node);

// SLOP, state tree, affordances, content references: what their members may be.
const oneOf = (names) => {
  const known = new Set(names.split(" "));
  return (value) => known.has(value);
};
const META = {
  summary: isText,
  salience: isShare,
  pinned: isFlag,
  changed: isFlag,
  focus: isFlag,
  urgency: oneOf("none low medium high critical"),
  reason: isText,
  total_children: isCount,
  window: isWindow,
  created: isText,
  updated: isText,
  available_actions: isNames,
};
const AFFORDANCE = {
  label: isText,
  description: isText,
  params: isObject,
  dangerous: isFlag,
  idempotent: isFlag,
  estimate: oneOf("instant fast slow async"),
  returns: isObject,
};
const CONTENT = {
  type: oneOf("text binary stream"),
  uri: isText,
  size: isCount,
  preview: isText,
  encoding: isText,
  hash: isText,
};

/** Refuse a member that must not be what it is; one that has no rule, unless there may be others. */
function checkMembers(value, rules, where, others = false) {
  for (const name in value)
    if (hasOwn(rules, name) ? value[name] != null && !rules[name](value[name]) : !others)
      wrong(where, name, value[name]);
}

// Params

const TYPES = {
  string: isText,
  boolean: isFlag,
  object: isObject,
  array: isArray,
  integer: Number.isInteger,
  number: isNumber,
  null: (value) => value === null,
};
const sizeOf = (value) => [...value].length;
/** Each keyword of JSON Schema that is checked: whether a value keeps it. */
const KEYWORDS = {
  type: (types, value) => [types].flat().some((type) => TYPES[type](value)),
  enum: (options, value) => options.some((option) => same(option, value)),
  const: same,
  pattern: (text, value) => !isText(value) || new RegExp(text, "u").test(value),
  required: (names, value) => !isObject(value) || names.every((name) => hasOwn(value, name)),
  anyOf: (options, value) => options.some((option) => !misfit(option, value)),
};
const limited = (name, is, size) => {
  KEYWORDS[`min${name}`] = (least, value) => !is(value) || size(value) >= least;
  KEYWORDS[`max${name}`] = (most, value) => !is(value) || size(value) <= most;
};
limited("imum", isNumber, Number);
limited("Length", isText, sizeOf);
limited("Items", isArray, sizeOf);
const NOTES = oneOf(
  "title description default examples format deprecated properties items additionalProperties",
);
/** The keywords of which the values are schemas. */
const SCHEMAS = oneOf("anyOf items additionalProperties");

/** Which keyword of a schema a value breaks, and where; nothing if it fits. */
function misfit(schema, value, at = "") {
  if (!schema) return `${at || "/"}: is not allowed`;
  for (const [name, rule] of entries(schema)) {
    if (KEYWORDS[name]?.(rule, value) === false)
      return `${at || "/"}: ${write(value).slice(0, 80)} breaks ${write({ [name]: rule })}`;
  }
  const isList = isArray(value);
  const { properties = {}, additionalProperties = true, items = true } = schema;
  for (const [name, part] of isList || isObject(value) ? entries(value) : []) {
    const more = hasOwn(properties, name) ? properties[name] : additionalProperties;
    const wrong = misfit(isList ? items : more, part, `${at}/${escaped(name)}`);
    if (wrong) return wrong;
  }
  return "";
}

/** Refuse a schema that is none, or that says what is not checked here. */
function checkSchema(schema, path) {
  for (const [name, rule] of entries(schema)) {
    if (!hasOwn(KEYWORDS, name) && !NOTES(name)) wrong(path, name, rule);
    const parts = name === "properties" ? values(rule) : SCHEMAS(name) ? [rule].flat() : [];
    for (const part of parts) checkSchema(part, path);
    if (name === "type" && ![rule].flat().every((type) => hasOwn(TYPES, type)))
      wrong(path, name, rule);
  }
}

/** A given schema in full, if it is the short kind. */
function fullSchema(given) {
  if (given.type === "object" || !keys(given).length) return { type: "object", ...given };
  const members = entries(given).map(([name, part]) => [
    name,
    isText(part) ? { type: part } : part,
  ]);
  return { type: "object", properties: fromEntries(members), required: keys(given) };
}

/** What each option of an action must be. */
const OPTIONS = {
  ...AFFORDANCE,
  guard: isFunction,
  authorize: isFunction,
  when: isFunction,
  refreshes: isNames,
};

function makeAction(name, handler, path, options = {}) {
  const where = `${path} actions.${name}`;
  if (!name || !isFunction(handler)) wrong(where, "handler", handler);
  checkMembers(options, OPTIONS, where);
  const affordance = { action: name };
  for (const option in AFFORDANCE) {
    const given = options[option];
    // What is false is not said.
    if (given != null && given !== false)
      affordance[option] = isObject(given) ? fullSchema(given) : given;
  }
  if (affordance.params) checkSchema(affordance.params, where);
  return { ...options, name, handler, affordance: clean(affordance, where) };
}

// Descriptors

/** What each member of a descriptor must be. */
const DESCRIPTOR = {
  id: isAny,
  type: (value) => isText(value) && value,
  properties: isObject,
  summary: isText,
  meta: isObject,
  children: (value) => typeof value === "object",
  window: (value) => isArray(value.items),
  actions: isObject,
  content_ref: isObject,
};
const ALIASES = { props: "properties", items: "children", contentRef: "content_ref" };

/** What a descriptor says: each member under one name. */
function read(given, ids) {
  if (!isObject(given)) wrong(ids, "descriptor", given);
  checkedDepth(ids, ids);
  /** @type {any} */
  const said = {};
  for (const key in given) {
    const name = ALIASES[key] ?? key;
    if (given[key] === undefined) continue;
    if (name in said) twice(ids, key);
    said[name] = given[key];
  }
  checkMembers(said, DESCRIPTOR, ids);
  return said;
}

/** The node that a descriptor says; the one that was known, where it says the same. */
function build(given, ids, id, type, found, known, label) {
  const said = read(given, ids);
  const properties = said.properties ?? {};
  const isNamed = !label || "label" in properties || "title" in properties;
  const fields = {
    properties: isNamed ? said.properties : { ...properties, label },
    meta: metaOf(said, ids),
    affordances: offered(said.actions ?? {}, ids, found),
    content_ref: said.content_ref && contentOf(said.content_ref, ids),
  };
  for (const name of FIELDS) fields[name] = settled(known?.[name], fields[name], ids);
  const node = {
    id: known ? id : checkedId(id, ids.slice(0, -1)),
    type: said.type ?? type,
    ...fields,
    children: childrenOf(said, ids, known?.children, found),
  };
  return known ? changed(known, node) : node;
}

function offered(actions, ids, found) {
  const path = format(ids);
  const all = entries(actions).map(([name, item]) => {
    const { handler, ...options } = isFunction(item) ? { handler: item } : (item ?? {});
    return makeAction(name, handler, path, options);
  });
  if (!all.length) return undefined;
  found.set(path, all);
  return all.map((item) => item.affordance);
}

function contentOf(given, ids) {
  const isTextual = /^text\/|(json|xml|yaml)$/.test(given.mime);
  const content = {
    type: isTextual ? "text" : "binary",
    uri: `slop://content${format(ids)}`,
    ...given,
  };
  const name = flaw(given, { mime: isText, summary: isText });
  if (name) wrong(ids, name, given[name]);
  checkMembers(content, CONTENT, ids, true);
  return content;
}

function metaOf({ meta, summary, window }, ids) {
  const all = { ...meta };
  if (summary != null) all.summary = summary;
  if (window) {
    const { items, offset = 0, total = offset + items.length } = window;
    // SLOP, scaling: a window sets meta.total_children and meta.window.
    assign(all, { total_children: total, window: [offset, items.length] });
  }
  checkMembers(all, META, ids, true);
  return keys(all).length ? all : undefined;
}

function childrenOf({ children, window }, ids, known, found) {
  if (window && children !== undefined) twice(ids, "items");
  const list = window ? window.items : children;
  if (list == null) return list;
  let byId;
  const all = isObject(list) ? entries(list).map(([id, item]) => ({ ...item, id })) : [...list];
  const made = all.map((item, at) => {
    const id = isSafeInteger(item?.id) ? String(item.id) : item?.id;
    let past = known?.[at];
    if (past?.id !== id) {
      byId ??= new Map(known?.map((child) => [child.id, child]));
      past = byId.get(id);
    }
    return build(item, [...ids, id], id, "item", found, past);
  });
  if (byId || !known) {
    const seen = new Set();
    for (const { id } of made) if (seen.size === seen.add(id).size) twice(ids, id);
  }
  return keptList(known, made);
}

// What changed

/**
 * @param {any[]} ops @param {string} op @param {string} path
 * @param {any} [value] @param {number} [index]
 */
const note = (ops, op, path, value, index) => ops.push({ op, path, value, index });

/**
 * The operations that turn one tree into another. Mirrors of the 0.2 era mishandle some field
 * operations: unless `fields` are asked for, such a change replaces the whole child.
 */
function diff(old, next, fields, path = "", ops = []) {
  if (old === next) return ops;
  const isOther = old.id !== next.id || old.type !== next.type;
  const start = ops.length;
  let isRisky = isOther;
  // Whether there are children, or may be, is a field; which there are is not.
  for (const name of next.children?.length ? FIELDS : [...FIELDS, "children"]) {
    const before = name === "children" && old.children?.length ? [] : old[name];
    const after = next[name];
    const where = `${path}/${name}`;
    if (same(before, after)) continue;
    if (name !== "content_ref" && isObject(before) && isObject(after)) {
      memberOps(before, after, where, ops);
      isRisky ||=
        !keys(before).length ||
        (path ? !same(before[""], after[""]) : ops.some((op) => op.path.endsWith("/")));
    } else {
      isRisky = true;
      const op = before === undefined ? "add" : "replace";
      note(ops, after === undefined ? "remove" : op, where, after);
    }
  }
  const isWhole = isRisky && !(fields && (!path || pays(ops.slice(start), next)));
  if (isOther || isWhole) {
    ops.length = start;
    note(ops, "replace", path || "/", next);
  } else if (isArray(next.children))
    for (const [a, b] of childOps(old.children ?? [], next.children, path, ops))
      diff(a, b, fields, `${path}/${b.id}`, ops);
  return ops;
}

/** Change members so that their order comes out right, when an add goes to the end. */
function memberOps(old, next, where, ops) {
  const before = keys(old);
  const names = keys(next);
  let count = 0;
  let last = -1;
  for (let at = before.indexOf(names[0]); at > last; at = before.indexOf(names[++count])) last = at;
  const staying = names.slice(0, count);
  const all = (op, some) => {
    for (const key of some)
      note(ops, op, `${where}/${escaped(key)}`, op === "remove" ? undefined : next[key]);
  };
  all(
    "remove",
    before.filter((key) => !staying.includes(key)),
  );
  all(
    "replace",
    staying.filter((key) => !same(old[key], next[key])),
  );
  all("add", names.slice(count));
}

/** Whether operations take fewer bytes than the node. */
function pays(ops, node) {
  // Nothing, where there is no value, takes nothing.
  const size = (value) => bytes(write(value));
  let left = 0;
  for (const { path, value } of ops) left += 36 + sizeOf(path) + size(value);
  const weigh = (here) => {
    left -= 21 + sizeOf(here.id) + sizeOf(here.type);
    for (const name of FIELDS) left -= size(here[name]);
    if (left >= 0) here.children?.forEach(weigh);
  };
  weigh(node);
  return left < 0;
}

/** Add, remove and reorder children; returns the pairs that are left to compare. */
function childOps(old, next, path, ops) {
  const more = old.length - next.length;
  let first = 0;
  let last = next.length;
  while (first < last && old[first]?.id === next[first].id) first++;
  while (last > first && last + more > first && old[last + more - 1].id === next[last - 1].id)
    last--;
  const stays = new Map();
  const wanted = new Set(next.slice(first, last).map((node) => node.id));
  for (const node of old.slice(first, last + more)) {
    if (wanted.has(node.id)) stays.set(node.id, [stays.size, node]);
    else note(ops, "remove", `${path}/${node.id}`);
  }
  const kept = next.slice(first, last).filter((node) => stays.has(node.id));
  for (const [at, index] of moves(kept.map((node) => stays.get(node.id)[0]))) {
    note(ops, "move", `${path}/${kept[at].id}`, undefined, first + index);
  }
  const pairs = [];
  next.forEach((node, at) => {
    const past = at < first ? old[at] : at < last ? stays.get(node.id)?.[1] : old[at + more];
    if (!past) note(ops, "add", `${path}/${node.id}`, node, at);
    else if (past !== node) pairs.push([past, node]);
  });
  return pairs;
}

/** The fewest moves that sort: `ranks[i]` is where what belongs at `i` stands now. */
function moves(ranks) {
  const tails = [];
  const before = [];
  for (const rank of ranks) {
    const at = rankIn(tails, rank);
    before[rank] = tails[at - 1];
    tails[at] = rank;
  }
  const fixed = new Set();
  for (let rank = tails.at(-1); rank !== undefined; rank = before[rank]) fixed.add(rank);
  const waiting = [...ranks.keys()].filter((rank) => !fixed.has(rank));
  const found = [];
  let anchor = -1;
  ranks.forEach((rank, at) => {
    if (fixed.has(rank)) {
      anchor = rank;
    } else {
      waiting.splice(rankIn(waiting, rank), 1);
      found.push([at, at + rankIn(waiting, anchor)]);
    }
  });
  return found;
}

/** How many of some ordered numbers are less than another. */
function rankIn(ordered, number) {
  let low = 0;
  let high = ordered.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (ordered[middle] < number) low = middle + 1;
    else high = middle;
  }
  return low;
}

// What a subscriber sees

const withTotal = (node, hints) => ({ ...node.meta, ...hints, total_children: totalOf(node) });

/** A node without its children, which are counted. */
const bare = (node, hints, fields = {}) => ({
  id: node.id,
  type: node.type,
  ...fields,
  meta: withTotal(node, hints),
});

/** SLOP, state tree: a depth stub keeps id, type and meta. */
function stub(node) {
  const actions = node.affordances?.map((item) => item.action);
  return bare(node, actions?.length ? { available_actions: actions } : {});
}

/** SLOP, state tree: a compacted node drops children and content_ref. */
function compacted(node) {
  const { affordances, properties = affordances ? undefined : {} } = node;
  const hints = node.meta?.summary ? {} : { summary: `${totalOf(node)} children` };
  return bare(node, hints, { properties, affordances });
}

/** A function of a node that remembers what it made of each. */
function remembered(make) {
  const memory = new WeakMap();
  return (node, ...more) => {
    if (!memory.has(node)) memory.set(node, make(node, ...more));
    return memory.get(node);
  };
}

/**
 * A step that rewrites nodes with children: those that `enter` puts something in the place of, and
 * those below which a child is not shown.
 */
function rewriter(enter, shows = isAny) {
  const rewrite = (node, distance = 0) =>
    enter(node, distance) || (node.children?.length ? entered(node, distance + 1) : node);
  const entered = remembered((node, distance) => {
    const shown = node.children.filter(shows).map((child) => rewrite(child, distance));
    return changed(node, { children: keptList(node.children, shown) });
  });
  return rewrite;
}

function filtered({ types, min_salience, retain_ancestors: retain }) {
  const passes = (node) =>
    (!types || types.includes(node.type)) && (node.meta?.salience ?? 0.5) >= (min_salience ?? 0);
  const shows = (node) => passes(node) || (retain && node.children?.some(shows));
  return rewriter(() => null, shows);
}

const truncated = (depth) =>
  rewriter((node, distance) => distance >= depth && node.children?.length && stub(node));

const countOf = remembered(
  (node) => node.children?.reduce((sum, child) => sum + countOf(child), 1) ?? 1,
);

/** Collapse the lowest-scoring subtrees until so many nodes are left. */
function compact(root, most) {
  const excess = countOf(root) - most;
  if (excess <= 0) return root;
  const isPinned = (node) => node.meta?.pinned;
  const hasPin = (node) => isPinned(node) || node.children?.some(hasPin);
  const found = [];
  const look = (node, distance) => {
    if (isPinned(node)) return;
    const below = countOf(node) - 1;
    const score = (node.meta?.salience ?? 0.5) - distance * 0.01 - below * 0.001;
    if (below && distance > 1 && !hasPin(node)) found.push({ node, score });
    for (const child of node.children ?? []) look(child, distance + 1);
  };
  look(root, 0);
  const gone = new Set();
  const collapsed = new Set();
  const drop = (node) => {
    gone.add(node);
    node.children?.forEach(drop);
  };
  for (const { node } of found.sort((a, b) => a.score - b.score)) {
    if (gone.size >= excess) break;
    if (gone.has(node)) continue;
    collapsed.add(node);
    node.children.forEach(drop);
  }
  return rewriter((node) => collapsed.has(node) && compacted(node))(root);
}

function windowed(root, [offset, count]) {
  const first = root.meta?.window?.[0] ?? 0;
  const start = max(offset - first, 0);
  const children = (root.children ?? []).slice(start, max(offset + count - first, 0));
  const window = [children.length ? first + start : offset, children.length];
  return { ...root, meta: withTotal(root, { window }), children };
}

/**
 * What a message asks to see of a tree.
 * @param {{filter?: any, depth?: number, max_nodes?: number, window?: any}} message
 */
function projector({ filter, depth = -1, max_nodes, window }) {
  const kept = filter ? filtered(filter) : asIs;
  const cut = depth >= 0 ? truncated(depth) : asIs;
  return (root) => {
    const node = compact(cut(kept(root)), max_nodes ?? SNAPSHOT_NODES);
    return window ? windowed(node, window) : node;
  };
}

// Where actions hang, and how nodes are put together

/** A path with holes: `list/{id}` is every child of `list`. */
function pattern(path, more) {
  const ids = checkedIds(path);
  const names = ids.map((id) => /^\{([A-Za-z_]\w*)\}$/.exec(id)?.[1]);
  const odd = ids.find((id, at) => (names[at] ? ids.indexOf(id) < at : /[{}]/.test(id)));
  if (odd) wrong(path, "hole", odd);
  // No id has a tilde: what is literal sorts before a hole, from the root on.
  const shape = ids.map((id, at) => (names[at] ? "~" : `/${id}`)).join("");
  return { ...more, ids, names, shape };
}

/** Patterns with one more, the most literal first; of one shape and name the later one counts. */
function withPattern(patterns, path, more) {
  const all = new Map(
    [...patterns, pattern(path, more)].map((one) => [`${one.shape}//${one.name}`, one]),
  );
  return [...all.values()].sort((a, b) => (a.shape < b.shape ? -1 : +(a.shape > b.shape)));
}

/** Whether a pattern has a hole or this id at a level. */
const takes = ({ ids, names }, id, at) => names[at] || ids[at] === id;

/** Whether a pattern fits a path, or goes on from there. */
const reaches = (ids) => (pattern) => ids.every((id, at) => takes(pattern, id, at));

const fitting = (patterns, ids, name) =>
  patterns.find((one) => one.name === name && one.ids.length === ids.length && reaches(ids)(one));

const holesOf = ({ names = [] }, ids) =>
  fromEntries(ids.flatMap((id, at) => (names[at] ? [[names[at], id]] : [])));

/** The nodes that stand for closed views: nothing hangs on them. */
const closed = new WeakSet();

/** Hang the actions of patterns on a node and those below; what was made of one is remembered. */
function expose(node, patterns, made, depth = 0) {
  if (closed.has(node)) return node;
  const { affordances = [], children } = node;
  const all = new Map(affordances.map((item) => [item.action, item]));
  for (const action of patterns)
    if (action.ids.length === depth && !all.has(action.name) && applies(action, node))
      all.set(action.name, action.affordance);
  const further = patterns.filter(({ ids }) => ids.length > depth);
  const below = further.length
    ? children?.map(
        (child) =>
          made.get(child) ??
          expose(
            child,
            further.filter((action) => takes(action, child.id, depth)),
            made,
            depth + 1,
          ),
      )
    : children;
  const result = changed(node, {
    affordances: all.size > affordances.length ? [...all.values()] : node.affordances,
    children: below && keptList(children, below),
  });
  made.set(node, result);
  return result;
}

function applies({ name, when }, node) {
  try {
    return !when || when(node.properties ?? {});
  } catch (error) {
    console.error(name, error);
  }
}

/**
 * One path of the tree: what was put there, what is below it, and the sum of both.
 * @typedef {{rank: number, below: Map<string, Entry>, node?: Node, sum?: Node,
 *   described?: Node}} Entry
 */

/** @returns {Node} */
function compose(entry, id, described) {
  const { node = described ?? { id, type: "group" }, below } = entry;
  if (!entry.sum || (!entry.node && entry.described !== described)) {
    entry.described = described;
    entry.sum = below.size && !closed.has(node) ? { ...node, children: joined(node, below) } : node;
  }
  return entry.sum;
}

function joined({ children, meta }, below) {
  const all = new Map(children?.map((child) => [child.id, child]));
  // SLOP, state tree: a window is a contiguous slice of all the children.
  for (const [id, entry] of [...below].sort(([, a], [, b]) => a.rank - b.rank))
    if (!meta?.window || all.has(id)) all.set(id, compose(entry, id, all.get(id)));
  return [...all.values()];
}

// The app

/** An app that shows its state and takes actions on it. */
export class App {
  version = 0;
  /** @type {Map<string, any>} */
  _registrations = new Map();
  _due = new Set();
  /** @type {Set<string>} */
  _views = new Set();
  _focused = "";
  /** @type {any[]} */
  _actions = [];
  /** @type {any[]} */
  _resolvers = [];
  _exposed = new WeakMap();
  _rank = 0;
  /** @type {Set<ReturnType<typeof connection>>} */
  _lines = new Set();
  /** @type {Set<() => void>} */
  _ends = new Set();
  /** @type {any} */
  _timer;
  /** @type {((call: Call) => any) | undefined} */
  _mayCall;
  /** @type {Entry} */
  _root = { rank: 0, below: new Map() };

  /**
   * @param {string} id @param {string} [name]
   * @param {{props?: object, coalesce?: number, invokeTimeout?: number,
   *   taskLinger?: number, maxDepth?: number, maxNodes?: number}} [options] times in milliseconds
   */
  constructor(id, name = id, options = {}) {
    if (!/^[^\W_][\w.-]{0,127}$/.test(id) || !isId(id)) wrong(id, "id", id);
    this._options = {
      coalesce: 50,
      invokeTimeout: 30_000,
      taskLinger: 30_000,
      ...options,
    };
    this.info = {
      id,
      name,
      slop_version: "0.1",
      epoch: random() + random(),
      capabilities: CAPABILITIES.split(" "),
    };
    this.register("/", { props: { label: name, ...options.props } });
    this._bare = this._root.node;
    /** @type {any[]} */
    this._past = [[0, this.tree()]];
  }

  /** The tree now; later ones share its parts, so it must not be changed. @returns {Node} */
  tree() {
    for (const known of [...this._due]) this._evaluate(known);
    this._due.clear();
    const composed = compose(this._root, this.info.id, this._bare);
    return this._exposed.get(composed) ?? expose(composed, this._actions, this._exposed);
  }

  /**
   * Let a function, or an observable value, say what stands at a path: a descriptor, or null for
   * nothing. A function is asked when somebody looks, after every action and by `refresh`.
   * @param {string} path
   * @param {(() => any) | Observable} source
   * @param {(value: any) => Descriptor | null | undefined} [map] makes the descriptor of a value
   * @returns {() => void} takes it away again
   */
  node(path, source, map = asIs) {
    if (isFunction(source)) return this._register(path, { ask: () => map(source()) });
    if (!isFunction(source?.subscribe)) wrong(path, "source", source);
    let value;
    /** @type {any} */
    const own = { ask: () => (value == null ? value : map(value)) };
    const stop = this._register(path, own);
    const ended = source.subscribe((next) => {
      value = next;
      this._look(own);
    });
    own.end = () => (isFunction(ended) ? ended() : ended?.unsubscribe?.());
    return stop;
  }

  /**
   * Like `node`, for one of several views of which one is open; the others are stubs.
   * @param {string} path @param {() => Descriptor} source
   * @param {{summary?: string | (() => string)}} [options]
   * @returns {() => void} takes it away again
   */
  view(path, source, { summary } = {}) {
    /** @type {any} */
    const own = {
      isView: true,
      ask: () => {
        // SLOP, scaling: an inactive view is a stub with a summary; the active one has meta.focus.
        const given = /** @type {any} */ (this._isOpen(own.key) ? source() : {});
        const shown = {
          type: "view",
          summary: isFunction(summary) ? summary() : summary,
          ...given,
        };
        if (this._open === own.key) shown.meta = { ...shown.meta, focus: true };
        return given?.then ? given : shown;
      },
    };
    return this._register(path, own);
  }

  /** Open a view; the one that was open becomes a stub. @param {string} path */
  focus(path) {
    const { key } = this._known(path);
    if (!this._views.has(key)) wrong(path, "view", key);
    this._focused = key;
    this.refresh();
  }

  /**
   * Put a descriptor at a path, in the place of what was there.
   * @param {string} path @param {Descriptor} descriptor
   * @returns {() => void} takes it away again
   */
  register(path, descriptor) {
    const actions = new Map();
    return this._register(path, {
      node: this._built(checkedIds(path), descriptor, actions),
      actions,
    });
  }

  /** Take away what was registered at a path. @param {string} path */
  unregister(path) {
    this._unregister(this._known(path));
  }

  /**
   * Let a function do an action of the nodes that fit a path, which may have holes: `list/{id}`.
   * It is called with the params and what stands in the holes, in one object, and the call.
   * @param {string} path @param {string} name @param {Handler} handler
   * @param {ActionOptions} [options]
   */
  action(path, name, handler, options) {
    const action = makeAction(name, handler, path, options);
    this._actions = withPattern(this._actions, path, action);
    this._exposed = new WeakMap();
    this._notify();
  }

  /**
   * Let a function give the content of the nodes that fit a path, as text or bytes.
   * @param {string} path @param {(holes: any) => any} reader
   * @param {{when?: (properties: any) => any}} [options]
   */
  content(path, reader, { when } = {}) {
    const properties = {
      offset: { type: "integer", minimum: 0 },
      length: { type: "integer", minimum: 1 },
    };
    const read = async ({ offset = 0, length = PIECE, ...holes }) =>
      piece(await reader(holes), offset, length);
    this.action(path, "read_content", read, {
      description: "Read this node's content",
      params: { type: "object", properties },
      idempotent: true,
      refreshes: [],
      when,
    });
  }

  /**
   * Let a function make the children of the nodes that fit a path, when a query asks. It takes the
   * holes, and `offset` and `count` if it is `windowed`: then it may return `{items, total}`.
   * @param {string} path @param {(given: any) => any} resolve
   * @param {{windowed?: boolean}} [options]
   */
  children(path, resolve, { windowed: isWindowed } = {}) {
    this._resolvers = withPattern(this._resolvers, path, { resolve, isWindowed });
  }

  /** Look again at what stands at a path, or at everything. @param {string} [path] */
  refresh(path) {
    for (const known of path == null ? this._registrations.values() : [this._known(path)])
      this._look(known);
  }

  /**
   * Change some properties or meta of one node, at the cost of its path. What its function says
   * next replaces it.
   * @param {string} path @param {{props?: object, meta?: object}} change
   */
  update(path, change) {
    const ids = split(path);
    const said = read(change, ids);
    checkMembers(said.meta, META, ids, true);
    const known = this._owner(ids);
    this.tree();
    if (closed.has(known.node) || this._hides(known.ids.slice(0, -1))) return;
    const below = ids.slice(known.ids.length);
    if (!nodeAt(known.node, below)) fault(path, "there is no such node");
    const merged = (old, more) => (more ? { ...old, ...clean(more, path) } : old);
    known.node = changeAt(known.node, below, (node) => ({
      ...node,
      properties: merged(node.properties, said.properties),
      meta: merged(node.meta, said.meta),
    }));
    this._put(known.ids, known.node, known.rank);
  }

  /**
   * Let a function decide on every invoke; false is `unauthorized`.
   * @param {(call: Call) => any} hook
   */
  authorize(hook) {
    this._mayCall = hook;
  }

  /**
   * Tell everybody that something happened which is not state.
   * @param {string} name @param {Json} [data]
   */
  emit(name, data) {
    const event = clean({ type: "event", name, data }, name);
    for (const line of this._lines) line.tell(event);
  }

  /**
   * Work that is shown while it runs, under `/tasks`, and some time after. In a handler use the
   * call's own `task`, which also answers the caller. Returns the task's id.
   * @param {string} action @param {Work} work @param {object} [params]
   */
  task(action, work, params = {}) {
    const id = `task-${random()}`;
    const controller = new AbortController();
    // SLOP, async actions: a status node under /tasks.
    /** @type {any} */
    const state = {
      action,
      status: "running",
      started_at: new Date(),
      params,
    };
    const { signal } = controller;
    const cancel = {
      handler: () => controller.abort(),
      description: "Stop this task",
      refreshes: [],
    };
    const own = {
      rank: LAST,
      ask: () => ({
        type: "status",
        props: state,
        meta: state.status === "failed" ? ALARM : { salience: 0.8 },
        actions: state.status === "running" ? { cancel } : {},
      }),
    };
    const stop = this._register(`tasks/${id}`, own);
    const show = (more) => {
      assign(state, more);
      this._look(own);
    };
    /** @type {Task["report"]} */
    const report = (progress, message = state.message) => {
      const share = progress == null ? state.progress : +min(max(progress, 0), 1).toFixed(4);
      show({ progress: share, message });
    };
    const run = async () => {
      try {
        await work({ id, signal, report });
        show({ status: "done", progress: 1 });
      } catch (error) {
        show(
          signal.aborted
            ? { status: "cancelled" }
            : { status: "failed", message: reasonOf(error, action).message },
        );
      }
      /** @type {any} */ (setTimeout(stop, this._options.taskLinger)).unref?.();
    };
    run();
    return id;
  }

  /** Ask what is due a bit at a time: where the browser can, a page does its own work between. */
  async _settle() {
    let began = performance.now();
    for (const known of [...this._due]) {
      this._evaluate(known);
      if (performance.now() - began > SLICE_MS) {
        await /** @type {any} */ (globalThis).scheduler?.yield?.();
        began = performance.now();
      }
    }
  }

  /** Tell subscribers what changed, now. */
  flush() {
    const tree = this.tree();
    clearTimeout(this._timer);
    this._timer = null;
    if (tree === this._past.at(-1)[1]) return;
    if (this._past.push([++this.version, tree]) > KEPT_VERSIONS) this._past.shift();
    for (const line of this._lines) line.advance(tree);
  }

  /** End every transport and connection. */
  close() {
    for (const end of this._ends) end();
    for (const line of this._lines) line.close();
  }

  /**
   * Speak to one consumer over any transport: `send` takes each message, as text.
   * @param {(text: string) => void} send
   * @param {{buffered?: () => number}} [options] how many bytes wait unsent
   * @returns {Connection}
   */
  connect(send, { buffered } = {}) {
    const line = connection(this, send, buffered);
    line.greet();
    return line;
  }

  /**
   * Dial a hub, and again whenever the connection ends, after waits that grow.
   * @param {string} [url]
   * @param {{protocols?: string[], WebSocket?: any, wait?: number, longest?: number,
   *   onState?: (isOpen: boolean) => void}} [options]
   * @returns {() => void} ends it
   */
  dial(
    url = "ws://127.0.0.1:9339/slop",
    {
      protocols = ["slop"],
      WebSocket: Socket = WebSocket,
      wait = 500,
      longest = 30_000,
      onState,
    } = {},
  ) {
    let tries = 0;
    let socket, timer;
    const open = () => {
      let line;
      socket = assign(new Socket(url, protocols), {
        onopen: () => {
          line = this.connect((text) => socket.send(text), {
            buffered: () => socket.bufferedAmount,
          });
          onState?.(true);
        },
        onmessage: ({ data }) => {
          tries = 0;
          line?.receive(data);
        },
        onerror: () => {},
        onclose: () => {
          line?.close();
          if (line) onState?.(false);
          const most = min(longest, wait * 2 ** tries++);
          if (this._ends.has(end)) timer = setTimeout(open, most * (0.5 + chance() / 2));
        },
      });
    };
    const end = this._ending(() => {
      clearTimeout(timer);
      socket?.close();
    });
    open();
    return end;
  }

  /**
   * Speak to the extension that looks at this page, in the deployed format:
   * `postMessage({slop: true, message}, "*")`. Each `channel` that an envelope names is a
   * connection of its own.
   * @param {{window?: any}} [options]
   * @returns {() => void} ends it
   */
  post({ window: page = globalThis } = {}) {
    const lines = new Map();
    const hear = ({ source, origin, data }) => {
      const { slop, channel, message } = data ?? {};
      // Whatever comes from elsewhere, or is our own, is nothing that a consumer says here.
      if (source !== page || origin !== page.origin || slop !== true || !isObject(message)) return;
      const { type } = message;
      let line = lines.get(channel);
      if (type === "connect" && (line || lines.size < MOST)) {
        line ??= connection(this, (text) =>
          page.postMessage({ slop: true, channel, message: JSON.parse(text) }, "*"),
        );
        lines.set(channel, line);
        line.greet();
      } else if (type === "disconnect") {
        lines.delete(channel);
        line?.close();
      } else if (hasOwn(SHAPES, type)) {
        line?.receive(message);
      }
    };
    page.addEventListener("message", hear);
    const { document } = page;
    let meta;
    if (document && !document.querySelector('meta[name="slop"]')) {
      meta = assign(document.createElement("meta"), {
        name: "slop",
        content: "postmessage",
      });
      document.head.append(meta);
    }
    return this._ending(() => {
      page.removeEventListener("message", hear);
      meta?.remove();
      for (const line of lines.values()) line.close();
    });
  }

  _ending(end) {
    const once = () => {
      if (this._ends.delete(once)) end();
    };
    this._ends.add(once);
    return once;
  }

  _built(ids, given, found, known) {
    const { id, name } = this.info;
    return ids.length
      ? build(given, ids, ids.at(-1), "group", found, known)
      : build(given, ids, id, "root", found, known, name);
  }

  _known(path) {
    return this._registrations.get(format(split(path))) ?? fault(path, "there is no such node");
  }

  /** The registration that a node belongs to. */
  _owner(ids) {
    for (let depth = ids.length; ; depth--) {
      const known = this._registrations.get(format(ids.slice(0, depth)));
      if (known) return known;
    }
  }

  _register(path, given) {
    const ids = checkedIds(path);
    const key = format(ids);
    const known = this._registrations.get(key);
    const own = assign(given, { ids, key, rank: given.rank ?? known?.rank ?? ++this._rank });
    if (known) this._unregister(known, own.isView);
    this._registrations.set(key, own);
    if (own.isView) this._views.add(key);
    if (own.ask) this._look(own);
    else this._put(ids, own.node, own.rank);
    return () => {
      if (this._registrations.get(key) === own) this._unregister(own);
    };
  }

  _unregister(known, isReplaced = false) {
    this._registrations.delete(known.key);
    this._due.delete(known);
    known.end?.();
    this._put(known.ids, known.ids[0] ? undefined : this._bare);
    this._put(errorIds(known));
    if (!this._registrations.has("/")) this._register("/", { node: this._bare });
    if (!isReplaced && this._views.delete(known.key)) this.refresh();
  }

  get _open() {
    return this._views.has(this._focused) ? this._focused : [...this._views][0];
  }

  _isOpen(view) {
    return isWithin(this._open, view);
  }

  /** Whether a path is that of a closed view, or below one. */
  _hides(ids) {
    return [...this._views].some((view) => !this._isOpen(view) && isWithin(format(ids), view));
  }

  _look(known) {
    if (known.ask) this._due.add(known);
    this._notify();
  }

  _notify() {
    // Nobody is told where nobody listens: whoever comes gets the tree as it is then.
    if (this._lines.size)
      this._timer ??= setTimeout(
        () => this._settle().then(() => this.flush()),
        this._options.coalesce,
      );
  }

  /** Ask a function; where it fails, its last good state stays and a node under /errors says so. */
  _evaluate(known) {
    const { ids, key, rank, isView } = known;
    if (!this._due.delete(known) || this._hides(ids.slice(0, -1))) return;
    const isClosed = !!isView && !this._isOpen(key);
    try {
      const given = known.ask();
      // A promise is no descriptor, which is said below; that it fails is nobody else's to hear.
      given?.then?.(null, () => {});
      const actions = new Map();
      const before = isClosed === closed.has(known.node) ? known.node : undefined;
      const node = given == null ? undefined : this._built(ids, given, actions, before);
      if (isClosed) closed.add(node);
      assign(known, { node, actions });
      this._put(errorIds(known));
      this._put(ids, node, rank);
    } catch (error) {
      console.error(key, error);
      const where = errorIds(known);
      const properties = { path: key, message: `${key} could not be refreshed` };
      this._put(where, { id: where[1], type: "status", properties, meta: ALARM }, LAST);
    }
  }

  /**
   * Put a node at a path of the composed tree, or take it away.
   * @param {string[]} ids @param {any} [node]
   */
  _put(ids, node, rank = 0) {
    const way = [this._root];
    for (const id of ids) {
      const { below } = way[way.length - 1];
      if (!node && !below.has(id)) return;
      const next = below.get(id) ?? { rank, below: new Map() };
      below.set(id, next);
      if (node) next.rank = min(next.rank, rank);
      way.push(next);
    }
    const entry = way[ids.length];
    if (entry.node === node) return;
    entry.node = node;
    for (const one of way) one.sum = undefined;
    for (let at = ids.length; at && !way[at].node && !way[at].below.size; at--)
      way[at - 1].below.delete(ids[at - 1]);
    this._notify();
  }

  /** Go down a path and make what is missing on it; returns the node, and the actions of that. */
  async _made(ids, path) {
    let node = this.tree();
    const actions = new Map();
    for (const [depth, id] of ids.entries()) {
      if (node && !childOf(node, id)) {
        const most = max(WINDOW, min(totalOf(node), LOOK_UP));
        node = (await this._filled(node, ids.slice(0, depth), [0, most], actions)) ?? node;
      }
      node = childOf(node, id);
    }
    return { node: node ?? missing(path), actions };
  }

  /**
   * The node with the children that its resolver makes, if it has one.
   * @returns {Promise<any>}
   */
  async _filled(node, ids, [offset, count], actions) {
    const resolver = !this._hides(ids) && fitting(this._resolvers, ids);
    if (!resolver) return undefined;
    const { isWindowed } = resolver;
    const holes = holesOf(resolver, ids);
    const given = await resolver.resolve(isWindowed ? { ...holes, offset, count } : holes);
    const { items, ...answer } = isObject(given) ? given : { items: given };
    const { children } = build({ items }, ids, node.id, node.type, actions);
    const size = children.length;
    const meta = {
      ...node.meta,
      window: isWindowed ? [answer.offset ?? offset, size] : undefined,
      total_children: isWindowed ? (answer.total ?? max(totalOf(node), offset + size)) : size,
    };
    const patterns = this._actions.filter(reaches(ids));
    return expose({ ...node, meta, children }, patterns, this._exposed, ids.length);
  }

  /** What a query shows of a path, made where it is lazy. */
  async _answer(ids, view) {
    const { node } = await this._made(ids, view.path);
    const { children, meta } = node;
    const [from, count] = view.window ?? [0, WINDOW];
    const first = meta?.window?.[0] ?? 0;
    const last = min(from + count, totalOf(node));
    const lacks =
      !children ||
      (!children.length && totalOf(node)) ||
      (view.window && (from < first || last > first + children.length));
    const filled =
      lacks && view.depth !== 0 && (await this._filled(node, ids, [from, count], new Map()));
    return projector(filled?.meta?.window ? { ...view, window: null } : view)(filled || node);
  }

  /** From an invoke to its result, with every check in its order and the handler last. */
  async _invoke(path, name, params) {
    const ids = split(path);
    const shown = nodeAt(this.tree(), ids);
    const { node, actions } = shown ? { node: shown } : await this._made(ids, path);
    const offers = (one) => one?.affordances?.some((item) => item.action === name);
    const owner = this._owner(ids);
    const own = (actions ?? owner.actions)?.get(format(ids))?.find((item) => item.name === name);
    const action = own ?? fitting(this._actions, ids, name);
    const decline = (code, reason = `${path} does not offer '${name}' now`) => refuse(code, reason);
    if (!offers(node) || !action) decline("not_found");
    const wrong = misfit({ additionalProperties: false, ...action.affordance.params }, params);
    if (wrong) decline("invalid_params", wrong);
    const holes = holesOf(action, ids);
    const given = { ...params, ...holes };
    let accept = (_answer) => {};
    const task = (work) =>
      accept({ status: "accepted", data: { taskId: this.task(name, work, params) } });
    const call = { path, action: name, params, node, holes, task };
    if (
      (await this._mayCall?.(call)) === false ||
      (await action.authorize?.(given, call)) === false
    ) {
      decline("unauthorized");
    }
    const run = async () => {
      if (shown) {
        this._look(owner);
        if (!offers(nodeAt(this.tree(), ids))) decline("conflict");
      }
      const verdict = (await action.guard?.(given, call)) ?? true;
      if (verdict !== true) decline("conflict", verdict || undefined);
      try {
        const data = (await action.handler(given, call)) ?? undefined;
        return clean({ data }, `${path} ${name}`);
      } finally {
        for (const one of action.refreshes ?? [null]) {
          try {
            this.refresh(one);
          } catch (error) {
            // What an action took away is no reason to say that it failed.
            console.error(name, error);
          }
        }
      }
    };
    return new Promise((resolve, reject) => {
      accept = resolve;
      const late = new ActionError("internal", "took too long");
      const timer = setTimeout(reject, this._options.invokeTimeout, late);
      run()
        .then(resolve, reject)
        .finally(() => clearTimeout(timer));
    });
  }
}

const errorIds = ({ key }) => ["errors", legalId(key.slice(1, 60).toWellFormed() || "/")];

function piece(content, offset, length) {
  if (content == null) refuse("not_found", "there is no content");
  const isString = isText(content);
  const whole = isString && /[\ud800-\udfff]/.test(content) ? [...content] : content;
  const part = whole.slice(offset, offset + min(length, PIECE));
  const text = Array.from(part, (one) => (isString ? one : String.fromCharCode(one))).join("");
  return {
    content: isString ? text : btoa(text),
    encoding: isString ? "utf-8" : "base64",
    offset,
    size: whole.length,
  };
}

// The protocol's machine

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {}
}

const nests = (value, levels) =>
  Object(value) === value && (levels < 1 || values(value).some((part) => nests(part, levels - 1)));

/** What each field of a message must be. */
const or = (holds) => (value) => value == null || holds(value);
const given = (holds) => (value) => value === undefined || holds(value);
const isEcho = (value) => isText(value) && value.length <= 256 && value.isWellFormed();
const isRequest = (value) => isEcho(value) && value;
const isPath = (value) => isText(value) && value.length <= 65_536;
/** Which member of a message, or of a part of one, is missing or wrong. */
const flaw = (value, shape) => keys(shape).find((name) => !shape[name](value[name]));
const shaped = (shape) => (value) => isObject(value) && !flaw(value, shape);
const VIEW = {
  id: isRequest,
  path: given(isPath),
  depth: given((value) => isCount(value) || value === -1),
  max_nodes: or((value) => isCount(value) && value),
  filter: or(
    shaped({ types: or(isNames), min_salience: or(isShare), retain_ancestors: given(isFlag) }),
  ),
};
const SHAPES = {
  subscribe: {
    ...VIEW,
    resume: or(shaped({ epoch: isText, version: isCount, seq: isCount })),
    fields: given(isFlag),
  },
  unsubscribe: { id: isRequest },
  query: { ...VIEW, window: or(isWindow) },
  invoke: { id: isRequest, path: isPath, action: isText, params: or(isObject) },
};
const CODES = oneOf("not_found invalid_params unauthorized conflict internal");

/** What is asked for, or the most that there is. */
const least = (asked, most) => (most >= 0 && ((asked ?? -1) < 0 || asked > most) ? most : asked);

/** One consumer's connection: what it subscribed to, and what is said to it. */
function connection(app, transmit, buffered) {
  /** @type {Map<string, any>} */
  const subscriptions = new Map();
  const running = new Set();
  let drain;

  const hasRoom = () => !(buffered?.() > QUEUE_BYTES);
  /** Say something, unless it is too long; returns whether it was. */
  const say = (message, most = Infinity) => {
    const text = write(message);
    if (text.length > most) return true;
    try {
      if (app._lines.has(line)) transmit(text);
    } catch (error) {
      console.error(error);
      line.close();
    }
  };
  /** Answer a request with an error; whatever is not ours to tell is in the log. */
  const fail = (id, error) => say({ type: "error", id, error: reasonOf(error) });
  const show = (id, tree, more) =>
    say({ type: "snapshot", id, version: app.version, ...more, tree }, MESSAGE_CHARS) &&
    refuse("bad_request", "too large");

  const snapshot = (own) => {
    const { id, served } = own;
    own.isStale = true;
    if (!hasRoom()) return wait();
    try {
      show(id, own.shown, { seq: 0, served });
      assign(own, { isStale: false, seq: 0, version: app.version });
    } catch (error) {
      subscriptions.delete(id);
      fail(id, error);
    }
  };

  /**
   * Send what changed, if it did; where that is much, or to a slow reader, a snapshot as soon as
   * there is room.
   */
  const patch = (own, before, isAnswer = false) => {
    const { version: base } = own;
    const { version } = app;
    const ops = diff(before, own.shown, own.fields);
    if (!ops.length && !isAnswer) return;
    own.version = version;
    own.seq++;
    if (
      !hasRoom() ||
      ops.length > PATCH_OPS ||
      // The whole root anew is a snapshot.
      ops[0]?.path === "/" ||
      say({ type: "patch", subscription: own.id, version, seq: own.seq, base, ops }, MESSAGE_CHARS)
    )
      snapshot(own);
  };

  /** Look again after a while whether a slow reader has taken what was sent. */
  const wait = () => {
    drain ??= setTimeout(() => {
      drain = null;
      for (const own of subscriptions.values()) if (own.isStale && own.shown) snapshot(own);
    }, 100);
  };

  const does = {
    subscribe(message) {
      const { id, resume, path, depth = -1, max_nodes = null } = message;
      // SLOP, messages: a subscription's id is unique while it lives.
      if (subscriptions.get(id)?.isNew) refuse("bad_request", "this id is taken");
      subscriptions.delete(id);
      for (const [old, { isNew }] of subscriptions)
        if (!isNew && subscriptions.size >= MOST) subscriptions.delete(old);
      if (subscriptions.size >= MOST) refuse("bad_request", "there are too many");
      app.flush();
      const ids = split(path ?? "/");
      const { maxDepth, maxNodes } = app._options;
      const asked = { depth, max_nodes };
      const served = { depth: least(depth, maxDepth), max_nodes: least(max_nodes, maxNodes) };
      const bound = projector({ depth: maxDepth, max_nodes: maxNodes });
      const project = projector(message);
      const see = (tree) => {
        const source = nodeAt(tree, ids);
        return source && project(bound(source));
      };
      const own = {
        id,
        see,
        shown: see(app.tree()),
        served: same(asked, served) ? undefined : served,
        fields: message.fields,
        isNew: true,
      };
      if (!own.shown) missing(path);
      subscriptions.set(id, own);
      const { epoch, version, seq } = resume ?? {};
      const isKnown = epoch === app.info.epoch && version <= app.version;
      const past = isKnown && app._past.findLast(([kept]) => kept <= version);
      const before = past && see(past[1]);
      if (!before) return snapshot(own);
      assign(own, { seq, version });
      patch(own, before, true);
    },

    unsubscribe: ({ id }) => subscriptions.delete(id),

    async query(message) {
      const { id, path } = message;
      const found = await app._answer(split(path ?? "/"), message);
      app.flush();
      show(id, found);
    },

    async invoke({ id, path, action, params }) {
      if (running.has(id)) refuse("bad_request", "this id is taken");
      running.add(id);
      let answer;
      try {
        if (running.size > MOST) refuse("conflict", "there are too many");
        answer = { status: "ok", ...(await app._invoke(path, action, params ?? {})) };
      } catch (error) {
        const reason = reasonOf(error, path, action);
        if (!CODES(reason.code)) reason.code = "internal";
        answer = { status: "error", error: reason };
      }
      // SLOP, messages: the changes of an invoke are sent before its result.
      await app._settle();
      app.flush();
      running.delete(id);
      say({ type: "result", id, ...answer });
    },
  };

  const line = {
    /** Take in one message: text, or an object where the transport carries those. */
    async receive(data) {
      if (!app._lines.has(line)) return;
      let known;
      try {
        const message = isText(data) ? data.length <= ASKED_CHARS && parsed(data) : data;
        if (isEcho(message?.id)) known = message.id;
        if (!isObject(message) || nests(message, NESTING))
          refuse("bad_request", "no object, or too large");
        const { type } = message;
        // SLOP, messages: what is malformed is refused, and the connection lives on.
        const name = isText(type) && hasOwn(SHAPES, type) ? flaw(message, SHAPES[type]) : "type";
        if (name) refuse("bad_request", `'${name}' is missing or wrong`);
        await does[type](message);
      } catch (error) {
        fail(known, error);
      }
    },

    close() {
      clearTimeout(drain);
      subscriptions.clear();
      app._lines.delete(line);
    },

    /** Say who the app is; what was subscribed to before gives way to the same ids from now on. */
    greet() {
      for (const own of subscriptions.values()) own.isNew = false;
      say({ type: "hello", provider: app.info });
    },

    tell: (event) => hasRoom() && say(event),

    /** Tell every subscription what changed of what it shows. */
    advance(tree) {
      for (const own of subscriptions.values()) {
        const before = own.shown;
        own.shown = own.see(tree);
        if (own.shown === before) continue;
        if (!own.shown) {
          own.isStale = true;
          fail(own.id, new ActionError("not_found", "there is no such node"));
        } else if (own.isStale) {
          snapshot(own);
        } else {
          patch(own, before);
        }
      }
    },
  };
  app._lines.add(line);
  return line;
}
