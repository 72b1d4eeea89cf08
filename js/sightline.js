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
const STRING_BYTES = 256 * 1024;
const NESTING = 640;
const MESSAGE_CHARS = 1024 * 1024;
const SNAPSHOT_CHARS = 16 * 1024 * 1024;
const SNAPSHOT_NODES = 50_000;
const PATCH_OPS = 1024;
const QUEUE_BYTES = 256 * 1024;
const MOST = 64;
const KEPT_VERSIONS = 16;
const WINDOW = 50;
const LOOK_UP = 10_000;
const PIECE = 128 * 1024;
const LAST = 2 ** 30;
const SLICE_MS = 0.5;

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
  if (error instanceof ActionError) return error;
  console.error(...where, error);
  return { code: "internal", message: "the app failed" };
}

/** @returns {never} */
function fault(path, reason) {
  throw new TypeError(`${path}: ${reason}`);
}

// JSON

const { isArray } = Array;
const { isSafeInteger } = Number;
const { entries, fromEntries, hasOwn, keys, values } = Object;
const write = JSON.stringify;
const encoder = new TextEncoder();
const bytes = (text) => encoder.encode(text).length;
const fits = (text, most) =>
  text.isWellFormed() && (text.length * 3 <= most || bytes(text) <= most);
const kindOf = (value) => Object.prototype.toString.call(value);
const isObject = (value) => kindOf(value) === "[object Object]";
const isText = (value) => typeof value === "string";
const isFlag = (value) => typeof value === "boolean";
const isCount = (value) => isSafeInteger(value) && value >= 0;
const isShare = (value) => value >= 0 && value <= 1 && typeof value === "number";
const isNames = (value) => isArray(value) && value.every(isText);
const isWindow = (value) => isArray(value) && value.length === 2 && value.every(isCount);
const random = () => Math.random().toString(36).slice(2, 12);
/** A value in an error's text, whatever it is. */
const brief = (value) =>
  (isText(value) ? write(value) : Object(value) === value ? kindOf(value) : String(value)).slice(
    0,
    80,
  );

/** Whether two values say the same, order of members included. */
function same(a, b) {
  if (a === b) return true;
  if (typeof a !== "object" || typeof b !== "object" || !a || !b || isArray(a) !== isArray(b))
    return false;
  const names = keys(a);
  const others = keys(b);
  let at = names.length;
  // What has no members may be anything: a date, a map.
  if (at !== others.length || (!at && kindOf(a) !== kindOf(b))) return false;
  while (at--) if (names[at] !== others[at] || !same(a[names[at]], b[names[at]])) return false;
  return true;
}

/** A copy of a value that is JSON; members that are undefined are left out. */
function clean(value, path, level = 0) {
  if (typeof value?.toJSON === "function") value = value.toJSON();
  if (value === null || isFlag(value) || Number.isFinite(value)) return value;
  if (isText(value) && fits(value, STRING_BYTES)) return value;
  if (level < LEVELS && isArray(value)) return value.map((item) => clean(item, path, level + 1));
  if (level >= LEVELS || !isObject(value)) fault(path, `not JSON, or too large: ${brief(value)}`);
  const members = entries(value).filter(([, member]) => member !== undefined);
  return fromEntries(
    members.map(([key, member]) => [clean(key, path), clean(member, `${path}.${key}`, level + 1)]),
  );
}

/** What was known, where the same is said again; else a copy of what is said. */
function settled(known, given, path) {
  if (same(known, given)) return known;
  const copy = clean(given, path());
  return same(known, copy) ? known : copy;
}

/** The list that was known, if the new one has the very same nodes. */
function keptList(known, list) {
  return known?.length === list.length && list.every((item, at) => item === known[at])
    ? known
    : list;
}

// Ids and paths

const isId = (id) =>
  isText(id) && id && !RESERVED.includes(id) && !/[/~]/.test(id) && fits(id, ID_BYTES);

function checkedId(id, path) {
  if (isId(id)) return id;
  fault(path, `no id: ${brief(id)} (1 to ${ID_BYTES} bytes, no '/' or '~', no field's name)`);
}

/**
 * The legal id of a string that is not too long for one: a URL, a file path, a foreign key.
 * @param {string} text
 */
export function legalId(text) {
  const plain = text.replace(/[%/~\p{Cc}\u2028\u2029]/gu, (char) =>
    char === "~" ? "%7E" : encodeURIComponent(char),
  );
  const legal = RESERVED.includes(plain)
    ? `%${plain.charCodeAt(0).toString(16)}${plain.slice(1)}`
    : plain;
  return checkedId(legal || "%", text.slice(0, 80));
}

function split(path) {
  const body = path.replace(/^\/|\/$/g, "");
  const ids = body || path.length > 1 ? body.split("/") : [];
  return ids.includes("") ? fault(path, "an empty segment") : ids;
}

function checkedIds(path) {
  const ids = split(path).map((id) => checkedId(id, path));
  return ids.length < LEVELS ? ids : fault(path, `more than ${LEVELS} levels`);
}

/** The path of a child; that of the root where there is no parent. */
const join = (parent, id) =>
  parent === null ? "/" : parent === "/" ? `/${id}` : `${parent}/${id}`;
const format = (ids) => `/${ids.join("/")}`;
const escaped = (token) => String(token).replaceAll("~", "~0").replaceAll("/", "~1");
const childOf = (node, id) => node?.children?.find((child) => child.id === id);
const nodeAt = (node, ids) => ids.reduce(childOf, node);
const totalOf = (node) => node.meta?.total_children ?? node.children?.length ?? 0;

/** A node of which something changed, with the way to it made anew. */
function changeAt(node, ids, path, how) {
  if (!ids.length) return how(node);
  const at = node.children?.findIndex((child) => child.id === ids[0]) ?? -1;
  if (at < 0) fault(path, "there is no such node");
  return {
    ...node,
    children: node.children.with(at, changeAt(node.children[at], ids.slice(1), path, how)),
  };
}

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
  mime: isText,
  uri: isText,
  summary: isText,
  size: isCount,
  preview: isText,
  encoding: isText,
  hash: isText,
};

function checkMembers(value, rules, path, required = []) {
  for (const name of keys(rules)) {
    const member = value[name];
    if (member == null ? required.includes(name) : !rules[name](member)) {
      fault(path(), `'${name}' must not be ${brief(member)}`);
    }
  }
}

// Params

const TYPES = {
  string: isText,
  boolean: isFlag,
  object: isObject,
  array: isArray,
  integer: Number.isInteger,
  number: (value) => typeof value === "number",
  null: (value) => value === null,
};
const sizeOf = (value) => (isText(value) ? [...value].length : value.length);
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
limited("imum", TYPES.number, Number);
limited("Length", isText, sizeOf);
limited("Items", isArray, sizeOf);
/** The keywords of which the values are schemas. */
const PARTS = {
  properties: values,
  anyOf: (rule) => rule,
  items: (rule) => [rule],
  additionalProperties: (rule) => [rule],
};
const NOTES = oneOf("title description default examples format deprecated");

/** Which keyword of a schema a value breaks, and where; nothing if it fits. */
function misfit(schema, value, at = "") {
  if (isFlag(schema)) return schema ? "" : `${at || "/"}: is not allowed`;
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
    if (!hasOwn({ ...KEYWORDS, ...PARTS }, name) && !NOTES(name))
      fault(path, `'${name}' is not checked`);
    for (const part of PARTS[name]?.(rule) ?? []) checkSchema(part, path);
    if (name === "type" && ![rule].flat().every((type) => hasOwn(TYPES, type)))
      fault(path, `no type: ${rule}`);
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

const HOOKS = oneOf("guard authorize when refreshes");

function makeAction(name, handler, path, options = {}) {
  const where = `${path} actions.${name}`;
  if (!name || typeof handler !== "function") fault(where, "needs a name and a handler");
  const unknown = keys(options).find((option) => !hasOwn(AFFORDANCE, option) && !HOOKS(option));
  if (unknown) fault(where, `there is no option '${unknown}'`);
  const affordance = { action: name };
  for (const option of keys(AFFORDANCE)) {
    const given = options[option];
    const isSchema = AFFORDANCE[option] === isObject && isObject(given);
    if (given != null && given !== false) affordance[option] = isSchema ? fullSchema(given) : given;
  }
  checkMembers(affordance, AFFORDANCE, () => where);
  if (affordance.params) checkSchema(affordance.params, where);
  return { ...options, name, handler, affordance: clean(affordance, where) };
}

// Descriptors

const KEYS = oneOf(
  "id type props properties summary meta items children window actions content_ref contentRef",
);

/** The node that a descriptor says; the one that was known, where it says the same. */
function build(given, parent, id, type, known, found, level = 1) {
  const path = () => join(parent, id);
  if (!isObject(given) || level > LEVELS)
    fault(path(), `no descriptor, or more than ${LEVELS} levels`);
  for (const key in given) if (!KEYS(key)) fault(path(), `there is no key '${key}'`);
  const { props, properties = props, summary, meta, window, actions } = given;
  const { content_ref, contentRef = content_ref } = given;
  if (props != null && properties !== props) fault(path(), "'props' are given twice");
  const node = {
    id: known || parent === null ? id : checkedId(id, parent),
    type: given.type ?? type,
    properties: isGiven("props", properties, path)
      ? settled(known?.properties, properties, path)
      : undefined,
    meta:
      isGiven("meta", meta, path) || summary != null || window
        ? metaOf(given, known?.meta, path)
        : undefined,
    affordances: actions ? offered(actions, known?.affordances, path, found) : undefined,
    content_ref: isGiven("content_ref", contentRef, path)
      ? settled(known?.content_ref, contentOf(contentRef, path), path)
      : undefined,
    children: childrenOf(given, path, known?.children, found, level),
  };
  if (!isText(node.type) || !node.type) fault(path(), "'type' must not be empty");
  return known &&
    node.type === known.type &&
    node.properties === known.properties &&
    node.meta === known.meta &&
    node.affordances === known.affordances &&
    node.content_ref === known.content_ref &&
    node.children === known.children
    ? known
    : node;
}

const isGiven = (name, value, path) =>
  value != null && (isObject(value) || fault(path(), `'${name}' must be an object`));

function offered(actions, known, path, found) {
  const all = entries(actions).map(([name, item]) => {
    const { handler, ...options } = typeof item === "function" ? { handler: item } : (item ?? {});
    return makeAction(name, handler, path(), options);
  });
  if (!all.length) return undefined;
  found.set(path(), all);
  const list = all.map((item) => item.affordance);
  return settled(known, list, path);
}

function contentOf(given, path) {
  const isTextual = /^text\/|(json|xml|yaml)$/.test(given.mime ?? "");
  const content = {
    type: isTextual ? "text" : "binary",
    uri: `slop://content${path()}`,
    ...given,
  };
  checkMembers(content, CONTENT, path, ["mime", "summary"]);
  return content;
}

function metaOf({ meta, summary, window }, known, path) {
  const all = { ...meta };
  if (summary != null) all.summary = summary;
  if (window) {
    if (!isArray(window.items)) fault(path(), "'items' must be a list");
    const { items, offset = 0, total = offset + items.length } = window;
    // SLOP, scaling: a window sets meta.total_children and meta.window.
    Object.assign(all, { total_children: total, window: [offset, items.length] });
  }
  checkMembers(all, META, path);
  return keys(all).length ? settled(known, all, path) : undefined;
}

function childrenOf({ items, children = items, window }, path, known, found, level) {
  const list = window ? window.items : children;
  if ((items !== undefined && items !== children) || (window && children !== undefined))
    fault(path(), "'items' are given twice");
  if (list == null) return list;
  const here = path();
  const all = isObject(list)
    ? entries(list).map(([id, item]) => ({ ...item, id }))
    : typeof list === "object"
      ? [...list]
      : fault(here, "'items' must be a list");
  const before = known ?? [];
  let byId;
  const made = all.map((item, at) => {
    const id = isSafeInteger(item?.id) ? String(item.id) : item?.id;
    let past = before[at];
    if (past?.id !== id) {
      byId ??= new Map(before.map((child) => [child.id, child]));
      past = byId.get(id);
    }
    return build(item, here, id, "item", past, found, level + 1);
  });
  if (byId || !known) {
    const ids = new Set();
    for (const { id } of made)
      if (ids.size === ids.add(id).size) fault(join(here, id), "two items have one id");
  }
  return keptList(known, made);
}

// What changed

const presence = (list) => (isArray(list) ? "list" : list);
const hasMembers = (name, value) => (name === "properties" || name === "meta") && value != null;

/**
 * The operations that turn one tree into another. Mirrors of the 0.2 era mishandle some field
 * operations: unless `fields` are asked for, such a change replaces the whole child.
 */
function diff(old, next, fields, path = "", ops = []) {
  if (old === next) return ops;
  const isSame = old.id === next.id && old.type === next.type;
  const { own, isRisky } = isSame ? fieldOps(old, next, path) : { own: [], isRisky: true };
  if (!isSame || (path && isRisky && !(fields && pays(own, next)))) {
    ops.push({ op: "replace", path: path || "/", value: next });
    return ops;
  }
  for (const op of own) ops.push(op);
  const pairs = isArray(next.children)
    ? childOps(old.children ?? [], next.children, path, ops)
    : [];
  for (const [a, b] of pairs) diff(a, b, fields, `${path}/${b.id}`, ops);
  return ops;
}

/** How a node's own fields changed; `isRisky` where old mirrors mishandle that. */
function fieldOps(old, next, path) {
  let own = [];
  let isRisky = false;
  const turns = !next.children?.length && presence(old.children) !== presence(next.children);
  for (const name of turns ? [...FIELDS, "children"] : FIELDS) {
    const [before, after, where] = [old[name], next[name], `${path}/${name}`];
    if (same(before, after)) continue;
    if (hasMembers(name, before) && hasMembers(name, after)) {
      own = own.concat(memberOps(before, after, where));
      isRisky ||= !keys(before).length || !same(before[""], after[""]);
    } else {
      isRisky = true;
      if (after === undefined) own.push({ op: "remove", path: where });
      else own.push({ op: before === undefined ? "add" : "replace", path: where, value: after });
    }
  }
  return { own, isRisky };
}

/** Change members so that their order comes out right, when an add goes to the end. */
function memberOps(old, next, where) {
  const before = keys(old);
  const staying = new Set();
  let last = -1;
  for (const key of keys(next)) {
    const at = before.indexOf(key);
    if (at <= last) break;
    staying.add(key);
    last = at;
  }
  const op = (op, key) => ({
    op,
    path: `${where}/${escaped(key)}`,
    value: op === "remove" ? undefined : next[key],
  });
  return [
    ...before.filter((key) => !staying.has(key)).map((key) => op("remove", key)),
    ...[...staying].filter((key) => !same(old[key], next[key])).map((key) => op("replace", key)),
    ...keys(next)
      .filter((key) => !staying.has(key))
      .map((key) => op("add", key)),
  ];
}

/** Whether operations take fewer bytes than the node. */
function pays(ops, node) {
  const size = (value) => (value === undefined ? 0 : bytes(write(value)));
  let left = 0;
  for (const { path, value } of ops) left += 36 + sizeOf(path) + size(value);
  const stack = [node];
  while (stack.length && left >= 0) {
    const here = stack.pop();
    left -= 21 + sizeOf(here.id) + sizeOf(here.type);
    for (const name of FIELDS) left -= size(here[name]);
    for (const child of here.children ?? []) stack.push(child);
  }
  return left < 0;
}

/** Add, remove and reorder children; returns the pairs that are left to compare. */
function childOps(old, next, path, ops) {
  let [first, a, b] = [0, old.length - 1, next.length - 1];
  while (first <= a && first <= b && old[first].id === next[first].id) first++;
  while (first <= a && first <= b && old[a].id === next[b].id) [a, b] = [a - 1, b - 1];
  const stays = new Map();
  const wanted = new Set(next.slice(first, b + 1).map((node) => node.id));
  for (const node of old.slice(first, a + 1)) {
    if (wanted.has(node.id)) stays.set(node.id, [stays.size, node]);
    else ops.push({ op: "remove", path: `${path}/${node.id}` });
  }
  const kept = next.slice(first, b + 1).filter((node) => stays.has(node.id));
  for (const [at, index] of moves(kept.map((node) => stays.get(node.id)[0]))) {
    ops.push({ op: "move", path: `${path}/${kept[at].id}`, index: first + index });
  }
  const pairs = [];
  next.forEach((node, at) => {
    const past = at < first ? old[at] : at > b ? old[at - b + a] : stays.get(node.id)?.[1];
    if (!past) ops.push({ op: "add", path: `${path}/${node.id}`, value: node, index: at });
    else if (past !== node) pairs.push([past, node]);
  });
  return pairs;
}

/** The fewest moves that sort: `ranks[i]` is where what belongs at `i` stands now. */
function moves(ranks) {
  const tails = [];
  const before = new Map();
  for (const rank of ranks) {
    const at = rankIn(tails, rank);
    before.set(rank, tails[at - 1]);
    tails[at] = rank;
  }
  const fixed = new Set();
  for (let rank = tails.at(-1); rank !== undefined; rank = before.get(rank)) fixed.add(rank);
  const waiting = ranks.filter((rank) => !fixed.has(rank)).sort((one, other) => one - other);
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
  let [low, high] = [0, ordered.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (ordered[middle] < number) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Whether operations change a root in a way that such a mirror cannot follow. */
function needsSnapshot(root, ops, fields) {
  return ops.some(({ path }) => {
    const [field, ...tokens] = path.slice(1).split("/");
    if (field && (fields || !RESERVED.includes(field))) return false;
    return (
      !tokens.length ||
      tokens.includes("") ||
      (hasMembers(field, 1) && !keys(root[field] ?? {}).length)
    );
  });
}

// What a subscriber sees

/** SLOP, state tree: a depth stub keeps id, type and meta. */
function stub(node) {
  const actions = node.affordances?.map((item) => item.action);
  return {
    id: node.id,
    type: node.type,
    meta: withTotal(node, actions?.length ? { available_actions: actions } : {}),
  };
}

/** SLOP, state tree: a compacted node drops children and content_ref. */
function compacted(node) {
  const { id, type, affordances, properties = affordances ? undefined : {} } = node;
  const hints = node.meta?.summary ? {} : { summary: `${totalOf(node)} children` };
  return { id, type, properties, affordances, meta: withTotal(node, hints) };
}

const withTotal = (node, hints) => ({ ...node.meta, ...hints, total_children: totalOf(node) });

/** A step that rewrites nodes with children; what it made of one is remembered with it. */
function rewriter(enter, leave = (_node, _distance) => true) {
  const memories = [];
  return function rewrite(node, distance = 0) {
    const decided = enter(node, distance);
    if (decided !== undefined || !node.children?.length)
      return decided === undefined ? node : decided;
    memories[distance] ??= new WeakMap();
    const memory = memories[distance];
    if (!memory.has(node)) {
      const children = keptList(
        node.children,
        node.children.map((child) => rewrite(child, distance + 1)).filter(Boolean),
      );
      const result = children === node.children ? node : { ...node, children };
      memory.set(node, children.length || leave(node, distance) ? result : null);
    }
    return memory.get(node);
  };
}

function filtered({ types, min_salience, retain_ancestors: retain }) {
  const passes = (node) =>
    (!types || types.includes(node.type)) && (node.meta?.salience ?? 0.5) >= (min_salience ?? 0);
  return rewriter(
    (node, distance) => {
      if (distance === 0 || (node.children?.length && (retain || passes(node)))) return undefined;
      return passes(node) ? node : null;
    },
    (node, distance) => !retain || distance === 0 || passes(node),
  );
}

const truncated = (depth) =>
  rewriter((node, distance) =>
    !node.children?.length ? node : distance < depth ? undefined : stub(node),
  );

const counts = new WeakMap();

function countOf(node) {
  if (!node.children?.length) return 1;
  let count = counts.get(node);
  if (!count) {
    count = node.children.reduce((sum, child) => sum + countOf(child), 1);
    counts.set(node, count);
  }
  return count;
}

/** Collapse the lowest-scoring subtrees until so many nodes are left. */
function compact(root, most) {
  const excess = countOf(root) - most;
  if (excess <= 0) return root;
  const seen = [];
  const look = (node, distance, isUnderPin) => {
    const isPinned = isUnderPin || node.meta?.pinned === true;
    const at = seen.push(null) - 1;
    let isKept = isPinned;
    for (const child of node.children ?? []) isKept = look(child, distance + 1, isPinned) || isKept;
    const below = seen.length - at - 1;
    const score = (node.meta?.salience ?? 0.5) - distance * 0.01 - below * 0.001;
    seen[at] = { node, at, below, score, mayGo: below && distance > 1 && !isKept };
    return isKept;
  };
  look(root, 0, false);
  const gone = new Set();
  const collapsed = new Set();
  for (const { node, at, below } of seen
    .filter((one) => one.mayGo)
    .sort((a, b) => a.score - b.score)) {
    if (gone.size >= excess) break;
    if (gone.has(at)) continue;
    collapsed.add(node);
    for (let inner = at + 1; inner <= at + below; inner++) gone.add(inner);
  }
  return rewriter((node) => (collapsed.has(node) ? compacted(node) : undefined))(root);
}

function windowed(root, [offset, count]) {
  const first = root.meta?.window?.[0] ?? 0;
  const start = Math.max(offset - first, 0);
  const children = (root.children ?? []).slice(start, Math.max(offset + count - first, 0));
  const window = [children.length ? first + start : offset, children.length];
  return { ...root, meta: { ...root.meta, window, total_children: totalOf(root) }, children };
}

/**
 * What a message asks to see of a tree.
 * @param {{filter?: any, depth?: number, max_nodes?: number, window?: any}} message
 */
function projector({ filter, depth, max_nodes, window }) {
  const steps = [];
  if (filter) steps.push(filtered(filter));
  if (depth !== undefined && depth >= 0) steps.push(truncated(depth));
  steps.push((root) => compact(root, max_nodes ?? SNAPSHOT_NODES));
  if (window) steps.push((root) => windowed(root, window));
  return (root) => steps.reduce((node, step) => step(node), root);
}

// Where actions hang, and how nodes are put together

/** A path with holes: `list/{id}` is every child of `list`. */
function pattern(path, more) {
  const ids = checkedIds(path);
  const names = ids.map((id) => /^\{([A-Za-z_]\w*)\}$/.exec(id)?.[1]);
  const odd = ids.find((id, at) => /[{}]/.test(id) && !names[at]);
  if (odd) fault(path, `no hole: '${odd}'`);
  return { ...more, ids, names, order: names.map((name) => (name ? 1 : 0)).join("") };
}

const holesOf = ({ names }, ids) =>
  fromEntries(ids.flatMap((id, at) => (names[at] ? [[names[at], id]] : [])));

/** The patterns that fit, or could go on from, one place of the tree; the most literal first. */
class Way {
  constructor(patterns, depth = 0) {
    this._patterns = patterns.toSorted((a, b) => a.order.localeCompare(b.order));
    this._here = this._patterns.filter(({ ids }) => ids.length === depth);
    this._further = this._patterns.filter(({ ids }) => ids.length > depth);
    this._depth = depth;
    this._ways = new Map();
    this._made = new WeakMap();
  }

  with(more) {
    const isOther = ({ ids, name }) => name !== more.name || format(ids) !== format(more.ids);
    return new Way([...this._patterns.filter(isOther), more]);
  }

  _into(id) {
    const names = (one) => one.ids[this._depth] === id;
    // All ids that no pattern names are alike.
    const key = this._further.some(names) ? id : "";
    if (!this._ways.has(key)) {
      const further = this._further.filter((one) => names(one) || one.names[this._depth]);
      this._ways.set(key, new Way(further, this._depth + 1));
    }
    return this._ways.get(key);
  }

  at(ids) {
    return ids.reduce((way, id) => way._into(id), this);
  }

  find(ids, name) {
    return this.at(ids)._here.find((one) => one.name === name);
  }

  /** Hang the actions of patterns on a node and those below; anew only where it changed. */
  expose(node, closed, old, past) {
    if (closed.has(node) || !this._patterns.length) return node;
    if (old === node) return past;
    let result = this._made.get(node);
    if (result) return result;
    const shown = node.affordances ?? [];
    const added = new Map();
    for (const action of this._here) {
      const { name } = action;
      if (!added.has(name) && !shown.some((item) => item.action === name) && applies(action, node))
        added.set(name, action.affordance);
    }
    result = added.size ? { ...node, affordances: [...shown, ...added.values()] } : node;
    if (this._further.length && node.children?.length) {
      const children = node.children.map((child, at) => {
        const before = old?.children?.[at];
        return this._into(child.id).expose(child, closed, before, before && past.children[at]);
      });
      if (keptList(node.children, children) !== node.children) result = { ...result, children };
    }
    this._made.set(node, result);
    return result;
  }
}

function applies({ name, when }, node) {
  try {
    return !when || when(node.properties ?? {});
  } catch (error) {
    console.error(`when of ${name}`, error);
  }
}

/** One path of the tree: what was put there, what is below it, and the sum of both. */
class Entry {
  /** @type {Node | null} */
  _node = null;
  _isClosed = false;
  /** @type {Map<string, Entry>} */
  _below = new Map();
  /** @type {Node | null} */
  _sum = null;
  /** @type {Node | undefined} */
  _described = undefined;

  constructor(rank) {
    this._rank = rank;
  }

  /** @returns {Node} */
  compose(id, described) {
    if (!this._node && this._described !== described) this._sum = null;
    if (this._sum) return this._sum;
    this._described = described;
    const node = this._node ?? described ?? { id, type: "group" };
    const isWhole = !this._below.size || this._isClosed;
    const sum = isWhole ? node : { ...node, children: this._children(node) };
    this._sum = sum;
    return sum;
  }

  _children(node) {
    const own = new Map((node.children ?? []).map((child) => [child.id, child]));
    for (const [id, entry] of [...this._below].sort(([, a], [, b]) => a._rank - b._rank)) {
      // SLOP, state tree: a window is a contiguous slice of all the children.
      if (!node.meta?.window || own.has(id)) own.set(id, entry.compose(id, own.get(id)));
    }
    return [...own.values()];
  }
}

// The app

/** An app that shows its state and takes actions on it. */
export class App {
  version = 0;
  /** @type {Map<string, any>} */
  _registrations = new Map();
  _due = new Set();
  /** @type {string[]} */
  _views = [];
  _focused = "";
  _actions = new Way([]);
  _resolvers = new Way([]);
  _rank = 0;
  _closed = new Map();
  /** @type {Set<Line>} */
  _lines = new Set();
  /** @type {Map<string, Group>} */
  _groups = new Map();
  /** @type {Set<() => void>} */
  _ends = new Set();
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  _timer;
  /** @type {(call: Call) => any} */
  _mayCall = () => true;
  _root = new Entry(0);
  /** @type {Node | undefined} */
  _source;
  /** @type {any} */
  _result;

  /**
   * @param {string} id @param {string} [name]
   * @param {{props?: object, coalesce?: number, invokeTimeout?: number,
   *   taskLinger?: number, maxDepth?: number, maxNodes?: number}} [options] times in milliseconds
   */
  constructor(id, name = id, options = {}) {
    if (!/^[A-Za-z0-9][\w.-]{0,127}$/.test(id))
      fault(id, "an app's id is 1 to 128 of A-Z a-z 0-9 . _ -");
    this._options = {
      coalesce: 50,
      invokeTimeout: 30_000,
      taskLinger: 30_000,
      maxDepth: -1,
      ...options,
    };
    this.info = {
      id: checkedId(id, ""),
      name,
      slop_version: "0.1",
      epoch: random() + random(),
      capabilities: CAPABILITIES.split(" "),
    };
    this.register("/", { props: { label: name, ...options.props } });
    this._bare = this._root._node;
    this._past = [[0, this.tree()]];
  }

  /** The tree now; later ones share its parts, so it must not be changed. @returns {Node} */
  tree() {
    for (const known of [...this._due]) if (this._due.delete(known)) this._evaluate(known);
    this._due.clear();
    const composed = this._root.compose(this.info.id, undefined);
    if (composed !== this._source) {
      this._result = this._actions.expose(
        composed,
        new Set(this._closed.values()),
        this._source,
        this._result,
      );
      this._source = composed;
    }
    return this._result;
  }

  /**
   * Let a function, or an observable value, say what stands at a path: a descriptor, or null for
   * nothing. A function is asked when somebody looks, after every action and by `refresh`.
   * @param {string} path
   * @param {(() => any) | Observable} source
   * @param {(value: any) => Descriptor | null | undefined} [map] makes the descriptor of a value
   * @returns {() => void} takes it away again
   */
  node(path, source, map = (value) => value) {
    if (typeof source === "function") return this._register(path, { ask: () => map(source()) });
    if (typeof source?.subscribe !== "function") fault(path, "needs a function");
    let value;
    const own = { ask: () => (value == null ? null : map(value)), end: () => {} };
    const stop = this._register(path, own);
    const ended = source.subscribe((next) => {
      value = next;
      this._look(own);
    });
    own.end = () => (typeof ended === "function" ? ended() : ended?.unsubscribe?.());
    return stop;
  }

  /**
   * Like `node`, for one of several views of which one is open; the others are stubs.
   * @param {string} path @param {() => Descriptor} source
   * @param {{summary?: string | (() => string)}} [options]
   * @returns {() => void} takes it away again
   */
  view(path, source, { summary } = {}) {
    const key = checkedIds(path).join("/");
    if (!this._views.includes(key)) this._views.push(key);
    return this._register(path, {
      view: key,
      ask: () => {
        const text = typeof summary === "function" ? summary() : summary;
        // SLOP, scaling: an inactive view is a stub with a summary; the active one has meta.focus.
        if (!this._isOpen(key)) return { type: "view", summary: text };
        const given = /** @type {any} */ (source());
        const shown = { type: "view", summary: text, ...given };
        if (this._open === key) shown.meta = { ...shown.meta, focus: true };
        return given?.then ? given : shown;
      },
    });
  }

  /** Open a view; the one that was open becomes a stub. @param {string} path */
  focus(path) {
    const key = split(path).join("/");
    if (!this._views.includes(key)) fault(path, "there is no such view");
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
      node: this._built(checkedIds(path), descriptor, undefined, actions),
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
    this._actions = this._actions.with(pattern(path, makeAction(name, handler, path, options)));
    this._source = undefined;
    this._notify();
  }

  /**
   * Let a function give the content of the nodes that fit a path, as text or bytes.
   * @param {string} path @param {(holes: any) => any} reader
   * @param {{when?: (properties: any) => any}} [options]
   */
  content(path, reader, { when } = {}) {
    const properties = { offset: { type: "integer" }, length: { type: "integer" } };
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
  children(path, resolve, { windowed: isWindowed = false } = {}) {
    this._resolvers = this._resolvers.with(pattern(path, { resolve, isWindowed }));
  }

  /** Look again at what stands at a path, or at everything. @param {string} [path] */
  refresh(path) {
    for (const known of path === undefined ? this._registrations.values() : [this._known(path)])
      this._look(known);
  }

  /**
   * Change some properties or meta of one node, at the cost of its path. What its function says
   * next replaces it.
   * @param {string} path @param {{props?: object, meta?: object}} change
   */
  update(path, { props, meta }) {
    const ids = split(path);
    const known = this._owner(ids);
    this.tree();
    if (known.wasClosed || this._hides(known.ids.slice(0, -1))) return;
    if (!known.node) fault(path, "there is no such node");
    known.node = changeAt(known.node, ids.slice(known.ids.length), path, (node) => {
      const changed = { ...node };
      const here = () => path;
      if (isGiven("props", props, here))
        changed.properties = { ...node.properties, ...clean(props, path) };
      if (isGiven("meta", meta, here)) changed.meta = { ...node.meta, ...clean(meta, path) };
      checkMembers(changed.meta ?? {}, META, here);
      return changed;
    });
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
    const event = write({
      type: "event",
      name,
      data: data === undefined ? data : clean(data, name),
    });
    for (const line of this._lines) if (line.hasRoom()) line.send(event);
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
    const state = {
      action,
      status: "running",
      progress: /** @type {number | undefined} */ (undefined),
      message: /** @type {string | undefined} */ (undefined),
      started_at: new Date(),
      params,
    };
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
        meta: state.status === "failed" ? { salience: 1, urgency: "high" } : { salience: 0.8 },
        actions: state.status === "running" ? { cancel } : {},
      }),
    };
    const stop = this._register(`tasks/${id}`, own);
    const show = (more) => {
      Object.assign(state, more);
      this._look(own);
    };
    /** @type {Task["report"]} */
    const report = (progress, message = state.message) => {
      const share = Math.round(Math.min(Math.max(progress ?? 0, 0), 1) * 1e4) / 1e4;
      show({ progress: progress == null ? state.progress : share, message });
    };
    const run = async () => {
      try {
        await work({ id, signal: controller.signal, report });
        show({ status: "done", progress: 1 });
      } catch (error) {
        if (controller.signal.aborted) return show({ status: "cancelled" });
        const { message } = reasonOf(error, action);
        show({ status: "failed", message });
      } finally {
        /** @type {any} */ (setTimeout(stop, this._options.taskLinger)).unref?.();
      }
    };
    run();
    return id;
  }

  /** Ask what is due a bit at a time: where the browser can, a page does its own work between. */
  async _settle() {
    let began = performance.now();
    for (const known of [...this._due]) {
      if (this._due.delete(known)) this._evaluate(known);
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
    this._timer = undefined;
    if (tree === this._past.at(-1)?.[1]) return;
    this._past.push([++this.version, tree]);
    if (this._past.length > KEPT_VERSIONS) this._past.shift();
    for (const group of this._groups.values()) group.advance(tree);
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
  connect(send, { buffered = () => 0 } = {}) {
    const line = new Line(this, send, buffered);
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
      WebSocket: Socket = globalThis.WebSocket,
      wait = 500,
      longest = 30_000,
      onState = () => {},
    } = {},
  ) {
    let [isEnded, tries] = [false, 0];
    let socket, timer;
    const open = () => {
      let line;
      const own = new Socket(url, protocols);
      socket = own;
      own.onopen = () => {
        line = this.connect((text) => own.send(text), { buffered: () => own.bufferedAmount });
        onState(true);
      };
      own.onmessage = ({ data }) => {
        tries = 0;
        line?.receive(data);
      };
      own.onerror = () => {};
      own.onclose = () => {
        line?.close();
        if (line) onState(false);
        const most = Math.min(longest, wait * 2 ** tries++);
        if (!isEnded) timer = setTimeout(open, most * (0.5 + Math.random() / 2));
      };
    };
    open();
    return this._ending(() => {
      isEnded = true;
      clearTimeout(timer);
      socket.close();
    });
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
      // Whatever comes from elsewhere, or is our own, is nothing that a consumer says here.
      if (
        source !== page ||
        origin !== page.origin ||
        data?.slop !== true ||
        !isObject(data.message)
      )
        return;
      const { channel, message } = data;
      const { type } = message;
      let line = lines.get(channel);
      if (type === "connect" && (line || lines.size < MOST)) {
        line ??= new Line(this, (text) =>
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
      meta = Object.assign(document.createElement("meta"), {
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

  _built(ids, given, known, found) {
    if (ids.length)
      return build(given, format(ids.slice(0, -1)), ids.at(-1), "group", known, found);
    const props = given.props ?? given.properties ?? {};
    const isNamed = "label" in props || "title" in props;
    const named = isNamed
      ? given
      : { ...given, props: { ...props, label: this.info.name }, properties: undefined };
    return build(named, null, this.info.id, "root", known, found);
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
    const own = Object.assign(given, { ids, key, rank: given.rank ?? known?.rank ?? ++this._rank });
    if (known) this._unregister(known);
    this._registrations.set(key, own);
    if (own.ask) this._look(own);
    else this._put(ids, own.node, own.rank);
    if (!own.view) this._forgetView(key);
    return () => {
      if (this._registrations.get(key) === own) this._unregister(own);
    };
  }

  _unregister(known) {
    this._registrations.delete(known.key);
    this._due.delete(known);
    known.end?.();
    this._put(known.ids, known.ids.length ? null : this._bare);
    this._put(errorIds(known), null);
    if (!this._registrations.has("/"))
      this._registrations.set("/", { ids: [], key: "/", rank: 1, node: this._bare });
    this._forgetView(known.key);
  }

  _forgetView(key) {
    const views = this._views.filter(
      (view) => `/${view}` !== key || this._registrations.get(key)?.view,
    );
    if (views.length === this._views.length) return;
    this._views = views;
    this.refresh();
  }

  get _open() {
    return this._views.includes(this._focused) ? this._focused : this._views[0];
  }

  _isOpen(view) {
    return `${this._open}/`.startsWith(`${view}/`);
  }

  /** Whether a path is that of a closed view, or below one. */
  _hides(ids) {
    return this._views.some(
      (view) => !this._isOpen(view) && `${ids.join("/")}/`.startsWith(`${view}/`),
    );
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
    const { ids, key, rank, view } = known;
    if (this._hides(ids.slice(0, -1))) return;
    const isClosed = !!view && !this._isOpen(view);
    try {
      const given = known.ask();
      if (given?.then) {
        given.then(null, () => {});
        fault(key, "must not be async");
      }
      const actions = new Map();
      const before = isClosed === known.wasClosed ? known.node : undefined;
      const node = given == null ? null : this._built(ids, given, before ?? undefined, actions);
      Object.assign(known, { node, actions, wasClosed: isClosed });
      this._put(errorIds(known), null);
      this._put(ids, ids.length ? node : (node ?? this._bare), rank, isClosed);
    } catch (error) {
      console.error(key, error);
      const [errors, id] = errorIds(known);
      const consequence = known.node ? "shows its last good state" : "is missing";
      const message = `${key} could not be refreshed and ${consequence}`;
      this._put(
        [errors, id],
        {
          id,
          type: "status",
          properties: { path: key, message },
          meta: { salience: 1, urgency: "high" },
        },
        LAST,
      );
    }
  }

  /** Put a node at a path of the composed tree, or take it away. */
  _put(ids, node, rank = 0, isClosed = false) {
    const way = [this._root];
    for (const id of ids) {
      const { _below } = way[way.length - 1];
      if (!node && !_below.has(id)) return;
      const next = _below.get(id) ?? new Entry(rank);
      _below.set(id, next);
      if (node) next._rank = Math.min(next._rank, rank);
      way.push(next);
    }
    const entry = way[ids.length];
    if (entry._node === node && entry._isClosed === isClosed) return;
    Object.assign(entry, { _node: node, _isClosed: isClosed });
    if (isClosed) this._closed.set(entry, node);
    else this._closed.delete(entry);
    for (const one of way) one._sum = null;
    for (let at = ids.length; at && !way[at]._node && !way[at]._below.size; at--)
      way[at - 1]._below.delete(ids[at - 1]);
    this._notify();
  }

  /** Go down a path and make what is missing on it; returns the node, and the actions of that. */
  async _made(ids) {
    let node = this.tree();
    const actions = new Map();
    for (let depth = 0; node && depth < ids.length; depth++) {
      const here = ids.slice(0, depth);
      if (!childOf(node, ids[depth])) {
        const most = Math.max(WINDOW, Math.min(totalOf(node), LOOK_UP));
        node = (await this._filled(node, here, [0, most], actions))?.node ?? node;
      }
      node = childOf(node, ids[depth]);
    }
    return { node, actions };
  }

  /** The node with the children that its resolver makes, if it has one. */
  async _filled(node, ids, [offset, count], actions) {
    const resolver = !this._hides(ids) && this._resolvers.find(ids);
    if (!resolver) return undefined;
    const { isWindowed } = resolver;
    const holes = holesOf(resolver, ids);
    const given = await resolver.resolve(isWindowed ? { ...holes, offset, count } : holes);
    const { items, ...answer } = isObject(given) ? given : { items: given };
    const parent = ids.length ? format(ids.slice(0, -1)) : null;
    const { children } = build({ items }, parent, node.id, node.type, undefined, actions);
    const { window: _, ...meta } = node.meta ?? {};
    meta.total_children = isWindowed
      ? (answer.total ?? Math.max(totalOf(node), offset + children.length))
      : children.length;
    if (isWindowed) meta.window = [answer.offset ?? offset, children.length];
    return {
      isWindowed,
      node: this._actions.at(ids).expose({ ...node, meta, children }, new Set()),
    };
  }

  /** What a query shows of a path, made where it is lazy; nothing where it leads nowhere. */
  async _answer(ids, view) {
    const { node } = await this._made(ids);
    if (!node) return undefined;
    const { children, meta } = node;
    const [from, count] = view.window ?? [0, WINDOW];
    const first = meta?.window?.[0] ?? 0;
    const last = Math.min(from + count, totalOf(node));
    const lacks =
      !children ||
      (!children.length && totalOf(node)) ||
      (view.window && (from < first || last > first + children.length));
    const filled =
      lacks && view.depth !== 0 && (await this._filled(node, ids, [from, count], new Map()));
    if (!filled) return projector(view)(node);
    return projector(filled.isWindowed ? { ...view, window: undefined } : view)(filled.node);
  }

  /** From an invoke to its result, with every check in its order and the handler last. */
  async _invoke(path, name, params) {
    const ids = readPath(path);
    const shown = nodeAt(this.tree(), ids);
    const { node = shown, actions } = shown ? {} : await this._made(ids);
    if (!node) refuse("not_found", `${path}: there is no such node`);
    const offers = (one) => one?.affordances?.some((item) => item.action === name);
    if (!offers(node)) refuse("not_found", `${path} does not offer '${name}' now`);
    const owner = this._owner(ids);
    const own = (actions ?? owner.actions)?.get(format(ids))?.find((item) => item.name === name);
    const action =
      own ?? this._actions.find(ids, name) ?? refuse("not_found", `nothing does '${name}' here`);
    const wrong = misfit({ additionalProperties: false, ...action.affordance.params }, params);
    if (wrong) refuse("invalid_params", wrong);
    const holes = action.names ? holesOf(action, ids) : {};
    const given = { ...params, ...holes };
    let accept = (_answer) => {};
    const task = (work) =>
      accept({ status: "accepted", data: { taskId: this.task(name, work, params) } });
    const call = { path, action: name, params, node, holes, task };
    if (
      (await this._mayCall(call)) === false ||
      (await action.authorize?.(given, call)) === false
    ) {
      refuse("unauthorized", `not allowed to ${name} here`);
    }
    const run = async () => {
      if (shown) {
        this._look(owner);
        if (!offers(nodeAt(this.tree(), ids)))
          refuse("conflict", `${path} does not allow '${name}' any more`);
      }
      const verdict = (await action.guard?.(given, call)) ?? true;
      if (verdict !== true) refuse("conflict", verdict || `'${name}' is not possible now`);
      try {
        const data = await action.handler(given, call);
        return data == null ? {} : { data: clean(data, `${path} ${name}`) };
      } finally {
        for (const one of action.refreshes ?? [undefined]) {
          try {
            this.refresh(one);
          } catch (error) {
            // What an action took away is no reason to say that it failed.
            console.error(name, error);
          }
        }
      }
    };
    const { invokeTimeout } = this._options;
    return new Promise((resolve, reject) => {
      accept = resolve;
      const timer = setTimeout(
        reject,
        invokeTimeout,
        new ActionError("internal", `took longer than ${invokeTimeout / 1000} s`),
      );
      run()
        .then(resolve, reject)
        .finally(() => clearTimeout(timer));
    });
  }
}

const errorIds = ({ key }) => ["errors", legalId(key.slice(1, 60).toWellFormed() || "/")];

function piece(content, offset, length) {
  if (content == null) refuse("not_found", "there is no content");
  if (offset < 0 || length < 1) refuse("invalid_params", "/offset, /length");
  const whole = isText(content) && /[\ud800-\udfff]/.test(content) ? [...content] : content;
  const part = whole.slice(offset, offset + Math.min(length, PIECE));
  const about = { offset, size: whole.length };
  if (isText(content))
    return { content: isText(part) ? part : part.join(""), encoding: "utf-8", ...about };
  return {
    content: btoa([...part].map((byte) => String.fromCharCode(byte)).join("")),
    encoding: "base64",
    ...about,
  };
}

// The protocol's machine

/** The subscriptions to one path through one view. */
class Group {
  constructor(app, key, ids, view) {
    const { maxDepth, maxNodes } = app._options;
    const { depth = -1, max_nodes } = view;
    const bound = projector({ depth: maxDepth, max_nodes: maxNodes });
    const project = projector(view);
    this.key = key;
    /** @type {(tree: Node) => Node | undefined} */
    this.see = (tree) => {
      const source = nodeAt(tree, ids);
      return source && project(bound(source));
    };
    const least = (...given) => Math.min(...given.filter(isCount));
    const [low, most] = [least(depth, maxDepth), least(max_nodes, maxNodes)];
    const isLess = (low < Infinity && low !== depth) || (most < Infinity && most !== max_nodes);
    // JSON has no Infinity, and says null.
    this.served = isLess
      ? `,"served":${write({ depth: low < Infinity ? low : -1, max_nodes: most })}`
      : "";
    /** @type {Set<any>} */
    this.subscriptions = new Set();
    this.text = "";
    this.shown = this.see(app.tree());
  }

  advance(tree) {
    const before = this.shown;
    this.shown = this.see(tree);
    if (this.shown === before) return;
    this.text = "";
    const bodies = [];
    for (const own of this.subscriptions) {
      if (!this.shown) own.line.lose(own);
      else if (!before) own.line.snapshot(own);
      else {
        bodies[+own.fields] ??= [this.ops(before, own.fields)];
        const [ops] = bodies[+own.fields];
        if (ops === "[]") return;
        if (!own.isStale) own.line.patch(own, ops);
      }
    }
  }

  /** The operations from an earlier view to this one, or nothing if a snapshot is better. */
  ops(before, fields) {
    const ops = diff(before, this.shown, fields);
    if (ops.length > PATCH_OPS || needsSnapshot(before, ops, fields)) return undefined;
    const text = write(ops);
    return text.length > SNAPSHOT_CHARS ? undefined : text;
  }
}

function encode(tree) {
  const text = write(tree);
  return text.length <= SNAPSHOT_CHARS
    ? text
    : refuse("bad_request", "too large: ask for less of it");
}

function readPath(path) {
  try {
    return split(path);
  } catch (error) {
    return refuse("not_found", error.message);
  }
}

const nests = (value, levels) =>
  typeof value === "object" &&
  value !== null &&
  (levels < 1 || values(value).some((part) => nests(part, levels - 1)));

/** What each field of a message must be. */
const or = (holds) => (value) => value == null || holds(value);
const given = (holds) => (value) => value === undefined || holds(value);
const isEcho = (value) => isText(value) && value.length <= 256 && value.isWellFormed();
const isRequest = (value) => isEcho(value) && value !== "";
const isPath = (value) => isText(value) && value.length <= 65_536;
const isFilter = (value) =>
  isObject(value) &&
  or(isNames)(value.types) &&
  or(isShare)(value.min_salience) &&
  given(isFlag)(value.retain_ancestors);
const isPoint = (value) =>
  isObject(value) && isText(value.epoch) && isCount(value.version) && isCount(value.seq);
const VIEW = {
  id: isRequest,
  path: given(isPath),
  depth: given((value) => isCount(value) || value === -1),
  max_nodes: or((value) => isCount(value) && value),
  filter: or(isFilter),
};
const SHAPES = {
  subscribe: { ...VIEW, resume: or(isPoint), fields: given(isFlag) },
  unsubscribe: { id: isRequest },
  query: { ...VIEW, window: or(isWindow) },
  invoke: { id: isRequest, path: isPath, action: isText, params: or(isObject) },
};

/** One consumer's connection. */
class Line {
  constructor(app, send, buffered = () => 0) {
    this._app = app;
    this._send = send;
    /** @type {() => boolean} */
    this.hasRoom = () => buffered() <= QUEUE_BYTES;
    /** @type {Map<string, any>} */
    this._subscriptions = new Map();
    this._running = new Set();
    this._drain = undefined;
    app._lines.add(this);
  }

  /** Say who the app is; what was subscribed to before gives way to the same ids from now on. */
  greet() {
    for (const own of this._subscriptions.values()) own.isOld = true;
    this.say({ type: "hello", provider: this._app.info });
  }

  close() {
    clearInterval(this._drain);
    for (const id of this._subscriptions.keys()) this._end(id);
    this._app._lines.delete(this);
  }

  send(text) {
    if (!this._app._lines.has(this)) return;
    try {
      this._send(text);
    } catch (error) {
      console.error(error);
      this.close();
    }
  }

  say(message) {
    this.send(write(message));
  }

  /** Answer a request with an error; whatever is not ours to tell is in the log. */
  _fail(id, error) {
    const { code, message } = reasonOf(error);
    this.say({ type: "error", id, error: { code, message } });
  }

  /** Take in one message: text, or an object where the transport carries those. */
  receive(data) {
    if (!this._app._lines.has(this)) return;
    let known;
    try {
      const message = isText(data) && data.length <= MESSAGE_CHARS ? read(data) : data;
      if (!isObject(message)) refuse("bad_request", "no object, or too large");
      const { type, id } = message;
      known = isEcho(id) ? id : undefined;
      if (nests(message, NESTING)) refuse("bad_request", "nests too deep");
      if (!isText(type) || !hasOwn(SHAPES, type)) refuse("bad_request", "unknown message type");
      // SLOP, messages: what is malformed is refused, and the connection lives on.
      const wrong = keys(SHAPES[type]).find((name) => !SHAPES[type][name](message[name]));
      if (wrong) refuse("bad_request", `${type}: '${wrong}' is missing or wrong`);
      if (type === "subscribe") this._subscribe(message);
      else if (type === "unsubscribe") this._end(id);
      else
        (type === "query" ? this._query(message) : this._invoke(message)).catch((error) =>
          this._fail(id, error),
        );
    } catch (error) {
      this._fail(known, error);
    }
  }

  _subscribe(message) {
    const { _app: app, _subscriptions: all } = this;
    const { id, resume, path } = message;
    // SLOP, messages: a subscription's id is unique while it lives.
    if (all.get(id)?.isOld === false) refuse("bad_request", "this id is taken");
    this._end(id);
    for (const own of all.values()) if (own.isOld && all.size >= MOST) this._end(own.id);
    if (all.size >= MOST) refuse("bad_request", "too many subscriptions");
    app.flush();
    const ids = readPath(path ?? "/");
    const key = write([ids, message.depth, message.max_nodes, message.filter]);
    const group = app._groups.get(key) ?? new Group(app, key, ids, message);
    if (!group.shown) refuse("not_found", `${path}: there is no such node`);
    const own = {
      id,
      line: this,
      group,
      fields: !!message.fields,
      seq: 0,
      version: 0,
      isStale: true,
      isOld: false,
    };
    all.set(id, own);
    app._groups.set(key, group);
    group.subscriptions.add(own);
    const isKnown = resume?.epoch === app.info.epoch && resume.version <= app.version;
    const past = isKnown && app._past.findLast(([version]) => version <= resume.version);
    const before = past && group.see(past[1]);
    if (!before) return this.snapshot(own);
    Object.assign(own, { isStale: false, seq: resume.seq, version: resume.version });
    this.patch(own, group.ops(before, own.fields));
  }

  _end(id) {
    const own = this._subscriptions.get(id);
    if (!own) return;
    const { key, subscriptions } = own.group;
    this._subscriptions.delete(id);
    subscriptions.delete(own);
    if (!subscriptions.size) this._app._groups.delete(key);
  }

  snapshot(own) {
    const { id, group } = own;
    const { version } = this._app;
    own.isStale = true;
    if (!this.hasRoom()) return this._wait();
    try {
      group.text ||= encode(group.shown);
      const head = write({ type: "snapshot", id, version, seq: 0 }).slice(0, -1);
      this.send(`${head}${group.served},"tree":${group.text}}`);
      Object.assign(own, { isStale: false, seq: 0, version });
    } catch (error) {
      this._end(id);
      this._fail(id, error);
    }
  }

  /** Send operations; without them, or to a slow reader, a snapshot as soon as there is room. */
  patch(own, ops) {
    if (ops === undefined || !this.hasRoom()) return this.snapshot(own);
    const { version } = this._app;
    const head = write({ type: "patch", subscription: own.id, version, seq: ++own.seq });
    this.send(`${head.slice(0, -1)},"base":${own.version},"ops":${ops}}`);
    own.version = version;
  }

  lose(own) {
    own.isStale = true;
    this._fail(own.id, new ActionError("not_found", "the node is gone"));
  }

  /** Look now and then whether a slow reader has taken what was sent. */
  _wait() {
    this._drain ??= setInterval(() => {
      if (!this.hasRoom()) return;
      clearInterval(this._drain);
      this._drain = undefined;
      for (const own of this._subscriptions.values())
        if (own.isStale && own.group.shown) this.snapshot(own);
    }, 100);
  }

  async _query(message) {
    const { id, path } = message;
    const { _app: app } = this;
    const found = await app._answer(readPath(path ?? "/"), message);
    if (!found) refuse("not_found", `${path}: there is no such node`);
    app.flush();
    this.send(
      `{"type":"snapshot","id":${write(id)},"version":${app.version},"tree":${encode(found)}}`,
    );
  }

  async _invoke({ id, path, action, params }) {
    const running = this._running;
    if (running.has(id)) refuse("bad_request", "an invoke with this id is running");
    running.add(id);
    let answer;
    try {
      if (running.size > MOST) refuse("conflict", "too many actions are running");
      answer = { status: "ok", ...(await this._app._invoke(path, action, params ?? {})) };
    } catch (error) {
      const { code, message } = reasonOf(error, path, action);
      answer = { status: "error", error: { code: CODES(code) ? code : "internal", message } };
    }
    // SLOP, messages: the changes of an invoke are sent before its result.
    await this._app._settle();
    this._app.flush();
    running.delete(id);
    this.say({ type: "result", id, ...answer });
  }
}

const CODES = oneOf("not_found invalid_params unauthorized conflict internal");

function read(text) {
  try {
    return JSON.parse(text);
  } catch (error) {
    return refuse("bad_request", `not JSON: ${error.message}`);
  }
}
