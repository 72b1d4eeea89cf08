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
const kindOf = (value) => Object.prototype.toString.call(value);
const isObject = (value) => kindOf(value) === "[object Object]";
const isText = (value) => typeof value === "string";
/** @param {any} value @returns {value is (...given: any[]) => any} */
const isFunction = (value) => typeof value === "function";
const isFlag = (value) => typeof value === "boolean";
const isCount = (value) => isSafeInteger(value) && value >= 0;
const isShare = (value) => value >= 0 && value <= 1 && typeof value === "number";
const isNames = (value) => isArray(value) && value.every(isText);
const isWindow = (value) => isArray(value) && value.length === 2 && value.every(isCount);
const random = () => chance().toString(36).slice(2, 12);
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
  if (isFunction(value?.toJSON)) value = value.toJSON();
  if (value === null || isFlag(value) || Number.isFinite(value)) return value;
  if (isText(value) && fits(value, STRING_BYTES)) return value;
  if (level < LEVELS && isArray(value)) return value.map((item) => clean(item, path, level + 1));
  if (level >= LEVELS || !isObject(value)) fault(path, `not JSON, or too large: ${brief(value)}`);
  const members = entries(value).filter(([, member]) => member !== undefined);
  return fromEntries(
    members.map(([key, member]) => [clean(key, path), clean(member, `${path}.${key}`, level + 1)]),
  );
}

/** What was known, where the same is said again; else a copy of what is said, if anything is. */
function settled(known, given, ids) {
  if (given == null || same(known, given)) return given == null ? undefined : known;
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

function checkedId(id, where) {
  if (isId(id)) return id;
  fault(where, `no id: ${brief(id)}; see legalId`);
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
  return ids.includes("") ? fault(path, "an empty id") : ids;
}

function checkedIds(path) {
  const ids = split(path).map((id) => checkedId(id, path));
  return ids.length < LEVELS ? ids : fault(path, `more than ${LEVELS} levels`);
}

const format = (ids) => `/${ids.join("/")}`;
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
  mime: isText,
  uri: isText,
  summary: isText,
  size: isCount,
  preview: isText,
  encoding: isText,
  hash: isText,
};

function checkMembers(value, rules, where, required = []) {
  for (const name of keys(rules)) {
    const member = value[name];
    if (member == null ? required.includes(name) : !rules[name](member)) {
      fault(where, `'${name}' must not be ${brief(member)}`);
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
const NOTES = oneOf(
  "title description default examples format deprecated properties items additionalProperties",
);
/** The keywords of which the values are schemas. */
const SCHEMAS = oneOf("anyOf items additionalProperties");

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
    if (!hasOwn(KEYWORDS, name) && !NOTES(name)) fault(path, `'${name}' is not checked`);
    const parts = name === "properties" ? values(rule) : SCHEMAS(name) ? [rule].flat() : [];
    for (const part of parts) checkSchema(part, path);
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
  if (!name || !isFunction(handler)) fault(where, "needs a function");
  const unknown = keys(options).find((option) => !hasOwn(AFFORDANCE, option) && !HOOKS(option));
  if (unknown) fault(where, `there is no option '${unknown}'`);
  const affordance = { action: name };
  for (const option of keys(AFFORDANCE)) {
    const given = options[option];
    const isSchema = AFFORDANCE[option] === isObject && isObject(given);
    if (given != null && given !== false) affordance[option] = isSchema ? fullSchema(given) : given;
  }
  checkMembers(affordance, AFFORDANCE, where);
  if (affordance.params) checkSchema(affordance.params, where);
  return { ...options, name, handler, affordance: clean(affordance, where) };
}

// Descriptors

const KEYS = oneOf(
  "id type props properties summary meta items children window actions content_ref contentRef",
);

/** One member that may be said by either of two names. */
const either = (name, one, other, ids) =>
  one === undefined || one === other
    ? other
    : other === undefined
      ? one
      : fault(ids, `'${name}' is given twice`);

/** The node that a descriptor says; the one that was known, where it says the same. */
function build(given, ids, id, type, known, found) {
  if (!isObject(given) || ids.length >= LEVELS)
    fault(ids, `no descriptor, or more than ${LEVELS} levels`);
  for (const key in given) if (!KEYS(key)) fault(ids, `there is no key '${key}'`);
  const { actions, contentRef, props } = given;
  const before = known ?? {};
  const fields = {
    properties: objectOf("props", either("props", props, given.properties, ids), ids),
    meta: metaOf(given, ids),
    affordances: actions && offered(actions, ids, found),
    content_ref: contentOf(either("content_ref", contentRef, given.content_ref, ids), ids),
  };
  for (const name of FIELDS) fields[name] = settled(before[name], fields[name], ids);
  const node = {
    id: known || !ids.length || isId(id) ? id : checkedId(id, ids.slice(0, -1)),
    type: given.type ?? type,
    ...fields,
    children: childrenOf(given, ids, before.children, found),
  };
  if (!isText(node.type) || !node.type) fault(ids, `'type' must not be ${brief(node.type)}`);
  return known ? changed(known, node) : node;
}

const objectOf = (name, value, ids) =>
  value == null || isObject(value) ? value : fault(ids, `'${name}' must be an object`);

function offered(actions, ids, found) {
  const all = entries(actions).map(([name, item]) => {
    const { handler, ...options } = isFunction(item) ? { handler: item } : (item ?? {});
    return makeAction(name, handler, format(ids), options);
  });
  if (!all.length) return undefined;
  found.set(format(ids), all);
  return all.map((item) => item.affordance);
}

function contentOf(given, ids) {
  if (!objectOf("content_ref", given, ids)) return undefined;
  const isTextual = /^text\/|(json|xml|yaml)$/.test(given.mime ?? "");
  const content = {
    type: isTextual ? "text" : "binary",
    uri: `slop://content${format(ids)}`,
    ...given,
  };
  checkMembers(content, CONTENT, ids, ["mime", "summary"]);
  return content;
}

function metaOf({ meta, summary, window }, ids) {
  if (!objectOf("meta", meta, ids) && summary == null && !window) return undefined;
  const all = { ...meta };
  if (summary != null) all.summary = summary;
  if (window) {
    if (!isArray(window.items)) fault(ids, "'items' must be a list");
    const { items, offset = 0, total = offset + items.length } = window;
    // SLOP, scaling: a window sets meta.total_children and meta.window.
    assign(all, { total_children: total, window: [offset, items.length] });
  }
  checkMembers(all, META, ids);
  return keys(all).length ? all : undefined;
}

function childrenOf({ items, children, window }, ids, known, found) {
  const list = either("items", either("items", items, children, ids), window?.items, ids);
  if (list == null) return list;
  const all = isObject(list)
    ? entries(list).map(([id, item]) => ({ ...item, id }))
    : typeof list === "object"
      ? [...list]
      : fault(ids, "'items' must be a list");
  const before = known ?? [];
  let byId;
  const made = all.map((item, at) => {
    const id = isSafeInteger(item?.id) ? String(item.id) : item?.id;
    let past = before[at];
    if (past?.id !== id) {
      byId ??= new Map(before.map((child) => [child.id, child]));
      past = byId.get(id);
    }
    return build(item, [...ids, id], id, "item", past, found);
  });
  if (byId || !known) {
    const seen = new Set();
    for (const { id } of made)
      if (seen.size === seen.add(id).size) fault([...ids, id], "two items have one id");
  }
  return keptList(known, made);
}

// What changed

/** @param {string} op @param {string} path @param {any} [value] @param {number} [index] */
const operation = (op, path, value, index) => ({ op, path, value, index });
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
    ops.push(operation("replace", path || "/", next));
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
      const op = before === undefined ? "add" : "replace";
      own.push(operation(after === undefined ? "remove" : op, where, after));
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
  const rest = keys(next).filter((key) => !staying.has(key));
  const all = (op, names) =>
    names.map((key) =>
      operation(op, `${where}/${escaped(key)}`, op === "remove" ? undefined : next[key]),
    );
  return [
    ...all(
      "remove",
      before.filter((key) => !staying.has(key)),
    ),
    ...all(
      "replace",
      [...staying].filter((key) => !same(old[key], next[key])),
    ),
    ...all("add", rest),
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
    else ops.push(operation("remove", `${path}/${node.id}`));
  }
  const kept = next.slice(first, b + 1).filter((node) => stays.has(node.id));
  for (const [at, index] of moves(kept.map((node) => stays.get(node.id)[0]))) {
    ops.push(operation("move", `${path}/${kept[at].id}`, undefined, first + index));
  }
  const pairs = [];
  next.forEach((node, at) => {
    const past = at < first ? old[at] : at > b ? old[at - b + a] : stays.get(node.id)?.[1];
    if (!past) ops.push(operation("add", `${path}/${node.id}`, node, at));
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
  const memory = new WeakMap();
  return function rewrite(node, distance = 0) {
    const decided = enter(node, distance);
    if (decided !== undefined) return decided;
    if (!node.children?.length) return node;
    if (!memory.has(node)) {
      const children = keptList(
        node.children,
        node.children.map((child) => rewrite(child, distance + 1)).filter(Boolean),
      );
      const isKept = children.length || leave(node, distance);
      memory.set(node, isKept ? changed(node, { children }) : null);
    }
    return memory.get(node);
  };
}

function filtered({ types, min_salience, retain_ancestors: retain }) {
  const passes = (node) =>
    (!types || types.includes(node.type)) && (node.meta?.salience ?? 0.5) >= (min_salience ?? 0);
  return rewriter(
    (node, distance) => {
      if (!distance || (node.children?.length && (retain || passes(node)))) return undefined;
      return passes(node) ? node : null;
    },
    (node, distance) => !retain || !distance || passes(node),
  );
}

const truncated = (depth) =>
  rewriter((node, distance) =>
    distance < depth || !node.children?.length ? undefined : stub(node),
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
    const below = countOf(node) - 1;
    const score = (node.meta?.salience ?? 0.5) - distance * 0.01 - below * 0.001;
    const own = { node, score, mayGo: below && distance > 1 };
    seen.push(own);
    let isKept = isPinned;
    for (const child of node.children ?? []) isKept = look(child, distance + 1, isPinned) || isKept;
    if (isKept) own.mayGo = false;
    return isKept;
  };
  look(root, 0, false);
  const gone = new Set();
  const collapsed = new Set();
  const drop = (node) => {
    gone.add(node);
    node.children?.forEach(drop);
  };
  for (const { node } of seen.filter((one) => one.mayGo).sort((a, b) => a.score - b.score)) {
    if (gone.size >= excess) break;
    if (gone.has(node)) continue;
    collapsed.add(node);
    node.children.forEach(drop);
  }
  return rewriter((node) => (collapsed.has(node) ? compacted(node) : undefined))(root);
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
  const odd = ids.find(
    (id, at) => (names[at] && ids.indexOf(id) < at) || (/[{}]/.test(id) && !names[at]),
  );
  if (odd) fault(path, `no hole, or two of one name: '${odd}'`);
  return { ...more, ids, names, order: names.map((name) => (name ? 1 : 0)).join("") };
}

/** Patterns with one more, the most literal first. */
const withPattern = (patterns, more) =>
  [
    ...patterns.filter(({ ids, name }) => name !== more.name || format(ids) !== format(more.ids)),
    more,
  ].sort((a, b) => a.order.localeCompare(b.order));

/** Whether a pattern fits a path, or goes on from there. */
const reaches = (ids) => (pattern) =>
  ids.every((id, at) => pattern.names[at] || pattern.ids[at] === id);

const fitting = (patterns, ids, name) =>
  patterns.find((one) => one.name === name && one.ids.length === ids.length && reaches(ids)(one));

const holesOf = ({ names }, ids) =>
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
            further.filter(({ ids, names }) => names[depth] || ids[depth] === child.id),
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
 * @typedef {{rank: number, below: Map<string, Entry>, node?: Node, isClosed?: boolean,
 *   sum?: Node, described?: Node}} Entry
 */

/** @returns {Node} */
function compose(entry, id, described) {
  const { node = described ?? { id, type: "group" }, below } = entry;
  if (!entry.sum || (!entry.node && entry.described !== described)) {
    entry.described = described;
    entry.sum = below.size && !entry.isClosed ? { ...node, children: joined(node, below) } : node;
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
  /** @type {ReturnType<typeof setTimeout> | undefined} */
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
    if (!/^[A-Za-z0-9][\w.-]{0,127}$/.test(id) || !isId(id))
      fault(id, "an app's id is 1 to 128 of \\w.-");
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
    const composed = compose(this._root, this.info.id);
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
  node(path, source, map = (value) => value) {
    if (isFunction(source)) return this._register(path, { ask: () => map(source()) });
    if (!isFunction(source?.subscribe)) fault(path, "needs a function");
    let value;
    const own = { ask: () => (value == null ? null : map(value)), end: () => {} };
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
    const key = format(checkedIds(path));
    return this._register(path, {
      isView: true,
      ask: () => {
        const text = isFunction(summary) ? summary() : summary;
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
    const { key } = this._known(path);
    if (!this._views.has(key)) fault(path, "there is no such view");
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
    this._actions = withPattern(
      this._actions,
      pattern(path, makeAction(name, handler, path, options)),
    );
    this._exposed = new WeakMap();
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
  children(path, resolve, { windowed: isWindowed } = {}) {
    this._resolvers = withPattern(this._resolvers, pattern(path, { resolve, isWindowed }));
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
    const below = ids.slice(known.ids.length);
    if (!nodeAt(known.node, below)) fault(path, "there is no such node");
    const merged = (name, old, more) =>
      objectOf(name, more, path) ? { ...old, ...clean(more, path) } : old;
    known.node = changeAt(known.node, below, (node) => {
      const all = merged("meta", node.meta, meta);
      checkMembers(all ?? {}, META, path);
      return { ...node, properties: merged("props", node.properties, props), meta: all };
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
    const state = {
      action,
      status: "running",
      progress: /** @type {number | undefined} */ (undefined),
      message: /** @type {string | undefined} */ (undefined),
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
      const share = Math.round(min(max(progress ?? 0, 0), 1) * 1e4) / 1e4;
      show({ progress: progress == null ? state.progress : share, message });
    };
    const run = async () => work({ id, signal, report });
    const end = (more) => {
      show(more);
      /** @type {any} */ (setTimeout(stop, this._options.taskLinger)).unref?.();
    };
    run().then(
      () => end({ status: "done", progress: 1 }),
      (error) =>
        end(
          signal.aborted
            ? { status: "cancelled" }
            : { status: "failed", message: reasonOf(error, action).message },
        ),
    );
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
    this._timer = undefined;
    if (tree === this._past.at(-1)[1]) return;
    this._past.push([++this.version, tree]);
    if (this._past.length > KEPT_VERSIONS) this._past.shift();
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
        const most = min(longest, wait * 2 ** tries++);
        if (!isEnded) timer = setTimeout(open, most * (0.5 + chance() / 2));
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

  _built(ids, given, known, found) {
    const { id, name } = this.info;
    if (ids.length) return build(given, ids, ids.at(-1), "group", known, found);
    const props = given.props ?? given.properties ?? {};
    const isNamed = "label" in props || "title" in props;
    const named = { ...given, props: { ...props, label: name }, properties: undefined };
    return build(isNamed ? given : named, ids, id, "root", known, found);
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
    this._put(known.ids);
    this._put(errorIds(known));
    if (!this._registrations.has("/"))
      this._registrations.set("/", { ids: [], key: "/", rank: 1, node: this._bare });
    if (!isReplaced && this._views.delete(known.key)) this.refresh();
  }

  get _open() {
    return this._views.has(this._focused) ? this._focused : [...this._views][0];
  }

  _isOpen(view) {
    return `${this._open}/`.startsWith(`${view}/`);
  }

  /** Whether a path is that of a closed view, or below one. */
  _hides(ids) {
    return [...this._views].some(
      (view) => !this._isOpen(view) && `${format(ids)}/`.startsWith(`${view}/`),
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
    const { ids, key, rank, isView } = known;
    if (!this._due.delete(known) || this._hides(ids.slice(0, -1))) return;
    const isClosed = !!isView && !this._isOpen(key);
    try {
      const given = known.ask();
      if (given?.then) {
        given.then(null, () => {});
        fault(key, "must not be async");
      }
      const actions = new Map();
      const before = isClosed === known.wasClosed ? known.node : undefined;
      const node = given == null ? undefined : this._built(ids, given, before, actions);
      assign(known, { node, actions, wasClosed: isClosed });
      this._put(errorIds(known));
      this._put(ids, node, rank, isClosed);
    } catch (error) {
      console.error(key, error);
      const [errors, id] = errorIds(known);
      const message = `${key} could not be refreshed`;
      this._put(
        [errors, id],
        {
          id,
          type: "status",
          properties: { path: key, message },
          meta: ALARM,
        },
        LAST,
      );
    }
  }

  /**
   * Put a node at a path of the composed tree, or take it away.
   * @param {string[]} ids @param {any} [node]
   */
  _put(ids, node, rank = 0, isClosed = false) {
    const way = [this._root];
    if (!ids.length) node ??= this._bare;
    for (const id of ids) {
      const { below } = way[way.length - 1];
      if (!node && !below.has(id)) return;
      const next = below.get(id) ?? { rank, below: new Map() };
      below.set(id, next);
      if (node) next.rank = min(next.rank, rank);
      way.push(next);
    }
    const entry = way[ids.length];
    if (entry.node === node && entry.isClosed === isClosed) return;
    assign(entry, { node, isClosed });
    if (isClosed) closed.add(node);
    for (const one of way) one.sum = undefined;
    for (let at = ids.length; at && !way[at].node && !way[at].below.size; at--)
      way[at - 1].below.delete(ids[at - 1]);
    this._notify();
  }

  /** Go down a path and make what is missing on it; returns the node, and the actions of that. */
  async _made(ids) {
    let node = this.tree();
    const actions = new Map();
    for (const [depth, id] of ids.entries()) {
      if (node && !childOf(node, id)) {
        const most = max(WINDOW, min(totalOf(node), LOOK_UP));
        node = (await this._filled(node, ids.slice(0, depth), [0, most], actions)) ?? node;
      }
      node = childOf(node, id);
    }
    return { node, actions };
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
    const { children } = build({ items }, ids, node.id, node.type, undefined, actions);
    const size = children.length;
    const meta = {
      ...node.meta,
      window: isWindowed ? [answer.offset ?? offset, size] : undefined,
      total_children: isWindowed ? (answer.total ?? max(totalOf(node), offset + size)) : size,
    };
    const patterns = this._actions.filter(reaches(ids));
    return expose({ ...node, meta, children }, patterns, this._exposed, ids.length);
  }

  /** What a query shows of a path, made where it is lazy; nothing where it leads nowhere. */
  async _answer(ids, view) {
    const { node } = await this._made(ids);
    if (!node) return undefined;
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
    return projector(filled?.meta?.window ? { ...view, window: undefined } : view)(filled || node);
  }

  /** From an invoke to its result, with every check in its order and the handler last. */
  async _invoke(path, name, params) {
    const ids = readPath(path);
    const shown = nodeAt(this.tree(), ids);
    const { node = shown ?? missing(path), actions } = shown ? {} : await this._made(ids);
    const offers = (one) => one?.affordances?.some((item) => item.action === name);
    const owner = this._owner(ids);
    const own = (actions ?? owner.actions)?.get(format(ids))?.find((item) => item.name === name);
    const action = own ?? fitting(this._actions, ids, name);
    if (!offers(node) || !action) refuse("not_found", `${path} does not offer '${name}' now`);
    const wrong = misfit({ additionalProperties: false, ...action.affordance.params }, params);
    if (wrong) refuse("invalid_params", wrong);
    const holes = action.names ? holesOf(action, ids) : {};
    const given = { ...params, ...holes };
    let accept = (_answer) => {};
    const task = (work) =>
      accept({ status: "accepted", data: { taskId: this.task(name, work, params) } });
    const call = { path, action: name, params, node, holes, task };
    if (
      (await this._mayCall?.(call)) === false ||
      (await action.authorize?.(given, call)) === false
    ) {
      refuse("unauthorized", `${path} does not allow '${name}' to you`);
    }
    const run = async () => {
      if (shown) {
        this._look(owner);
        if (!offers(nodeAt(this.tree(), ids)))
          refuse("conflict", `${path} does not offer '${name}' now`);
      }
      const verdict = (await action.guard?.(given, call)) ?? true;
      if (verdict !== true) refuse("conflict", verdict || `${path} does not allow '${name}' now`);
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
      const timer = setTimeout(reject, invokeTimeout, new ActionError("internal", "took too long"));
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

/** The operations from one view to a later one, or nothing if a snapshot is better. */
function opsText(before, after, fields) {
  const ops = diff(before, after, fields);
  if (ops.length > PATCH_OPS || needsSnapshot(before, ops, fields)) return undefined;
  const text = write(ops);
  return text.length > SNAPSHOT_CHARS ? undefined : text;
}

function encode(tree) {
  const text = write(tree);
  return text.length <= SNAPSHOT_CHARS ? text : refuse("bad_request", "too large");
}

/** What is refused by a code where it cannot be read. */
const reader = (how, code) => (given) => {
  try {
    return how(given);
  } catch (error) {
    return refuse(code, error.message);
  }
};
const readPath = reader(split, "not_found");
const readJson = reader((text) => JSON.parse(text), "bad_request");

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
const CODES = oneOf("not_found invalid_params unauthorized conflict internal");

/** What is asked for, or the most that there is. */
const least = (asked, most) => (most >= 0 && !(asked >= 0 && asked <= most) ? most : asked);

/** One consumer's connection: what it subscribed to, and what is said to it. */
function connection(app, transmit, buffered = () => 0) {
  /** @type {Map<string, any>} */
  const subscriptions = new Map();
  const running = new Set();
  let drain;

  const hasRoom = () => buffered() <= QUEUE_BYTES;
  const send = (text) => {
    if (!app._lines.has(line)) return;
    try {
      transmit(text);
    } catch (error) {
      console.error(error);
      line.close();
    }
  };
  const say = (message) => send(write(message));
  /** Say something with one more member, which is JSON already. */
  const sayWith = (message, name, text) =>
    send(`${write(message).slice(0, -1)},"${name}":${text}}`);
  /** Answer a request with an error; whatever is not ours to tell is in the log. */
  const fail = (id, error) => say({ type: "error", id, error: reasonOf(error) });

  const snapshot = (own) => {
    const { id, served } = own;
    const { version } = app;
    own.isStale = true;
    if (!hasRoom()) return wait();
    try {
      const text = encode(own.shown);
      sayWith({ type: "snapshot", id, version, seq: 0, served }, "tree", text);
      assign(own, { isStale: false, seq: 0, version });
    } catch (error) {
      subscriptions.delete(id);
      fail(id, error);
    }
  };

  /** Send operations; without them, or to a slow reader, a snapshot as soon as there is room. */
  const patch = (own, ops) => {
    if (!ops || !hasRoom()) return snapshot(own);
    const { id, version: base } = own;
    own.version = app.version;
    const head = { type: "patch", subscription: id, version: app.version, seq: ++own.seq, base };
    sayWith(head, "ops", ops);
  };

  /** Look now and then whether a slow reader has taken what was sent. */
  const wait = () => {
    drain ??= setInterval(() => {
      if (!hasRoom()) return;
      clearInterval(drain);
      drain = undefined;
      for (const own of subscriptions.values()) if (own.isStale && own.shown) snapshot(own);
    }, 100);
  };

  const does = {
    subscribe(message) {
      const { id, resume, path, depth = -1, max_nodes } = message;
      // SLOP, messages: a subscription's id is unique while it lives.
      if (subscriptions.get(id)?.isOld === false) refuse("bad_request", "this id is taken");
      subscriptions.delete(id);
      for (const [old, { isOld }] of subscriptions)
        if (isOld && subscriptions.size >= MOST) subscriptions.delete(old);
      if (subscriptions.size >= MOST) refuse("bad_request", "there are too many");
      app.flush();
      const ids = readPath(path ?? "/");
      const { maxDepth, maxNodes } = app._options;
      const bound = projector({ depth: maxDepth, max_nodes: maxNodes });
      const project = projector(message);
      const see = (tree) => {
        const source = nodeAt(tree, ids);
        return source && project(bound(source));
      };
      const served = {
        depth: least(depth, maxDepth),
        max_nodes: least(max_nodes, maxNodes) ?? null,
      };
      const isLess = served.depth !== depth || served.max_nodes !== (max_nodes ?? null);
      const own = {
        id,
        see,
        shown: see(app.tree()),
        served: isLess ? served : undefined,
        fields: message.fields,
        isOld: false,
      };
      if (!own.shown) missing(path);
      subscriptions.set(id, own);
      const isKnown = resume?.epoch === app.info.epoch && resume.version <= app.version;
      const past = isKnown && app._past.findLast(([version]) => version <= resume.version);
      const before = past && see(past[1]);
      if (!before) return snapshot(own);
      assign(own, { isStale: false, seq: resume.seq, version: resume.version });
      patch(own, opsText(before, own.shown, own.fields));
    },

    unsubscribe: ({ id }) => subscriptions.delete(id),

    async query(message) {
      const { id, path } = message;
      const found = (await app._answer(readPath(path ?? "/"), message)) ?? missing(path);
      app.flush();
      sayWith({ type: "snapshot", id, version: app.version }, "tree", encode(found));
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
        const message = isText(data) && data.length <= MESSAGE_CHARS ? readJson(data) : data;
        const { type, id } = message ?? {};
        known = isEcho(id) ? id : undefined;
        if (!isObject(message) || nests(message, NESTING))
          refuse("bad_request", "no object, or too large");
        // SLOP, messages: what is malformed is refused, and the connection lives on.
        const shape = isText(type) && hasOwn(SHAPES, type) ? SHAPES[type] : { type: () => false };
        const wrong = keys(shape).find((name) => !shape[name](message[name]));
        if (wrong) refuse("bad_request", `'${wrong}' is missing or wrong`);
        await does[type](message);
      } catch (error) {
        fail(known, error);
      }
    },

    close() {
      clearInterval(drain);
      subscriptions.clear();
      app._lines.delete(line);
    },

    /** Say who the app is; what was subscribed to before gives way to the same ids from now on. */
    greet() {
      for (const own of subscriptions.values()) own.isOld = true;
      say({ type: "hello", provider: app.info });
    },

    tell: (text) => hasRoom() && send(text),

    /** Tell every subscription what changed of what it shows. */
    advance(tree) {
      for (const own of subscriptions.values()) {
        const { id, shown: before, fields } = own;
        own.shown = own.see(tree);
        if (own.shown === before) continue;
        if (!own.shown) {
          own.isStale = true;
          say({
            type: "error",
            id,
            error: { code: "not_found", message: "there is no such node" },
          });
        } else if (!before || own.isStale) {
          snapshot(own);
        } else {
          const ops = opsText(before, own.shown, fields);
          if (ops !== "[]") patch(own, ops);
        }
      }
    },
  };
  app._lines.add(line);
  return line;
}
