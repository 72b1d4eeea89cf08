/**
 * An app in a web page or in Node that a Sightline host can see and use: its state as a tree, its
 * functions as actions. One module, no dependencies; the same semantics as `App` in Python.
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
 * @typedef {{id: string, type: string, properties?: {[name: string]: any}, meta?: {[name: string]: any},
 *   affordances?: any[], content_ref?: any, children?: Node[] | null}} Node
 * @typedef {{id?: string | number, type?: string, props?: object, properties?: object, summary?: string,
 *   items?: Iterable<Descriptor> | {[id: string]: Descriptor} | null,
 *   children?: Iterable<Descriptor> | {[id: string]: Descriptor} | null,
 *   window?: {items: Descriptor[], total?: number, offset?: number}, meta?: object,
 *   actions?: {[name: string]: Handler | (ActionOptions & {handler: Handler})},
 *   content_ref?: object, contentRef?: object}} Descriptor
 * @typedef {{path: string, action: string, params: {[name: string]: any}, node: Node,
 *   holes: {[name: string]: string}, task: (work: Work) => void}} Call
 * @typedef {(given: any, call: Call) => any} Handler
 * @typedef {{params?: object, label?: string, description?: string, dangerous?: boolean,
 *   idempotent?: boolean, estimate?: "instant" | "fast" | "slow" | "async", returns?: object,
 *   when?: (properties: any) => any, guard?: Handler, authorize?: Handler, refreshes?: string[]}} ActionOptions
 * @typedef {{id: string, signal: AbortSignal, report: (progress?: number | null, message?: string) => void}} Task
 * @typedef {(task: Task) => any} Work
 * @typedef {{subscribe: (listener: (value: any) => void) => any}} Observable
 * @typedef {{receive: (message: any) => void, close: () => void}} Connection
 */

const RESERVED = ["properties", "children", "affordances", "meta", "content_ref", "id", "type"];
const CAPABILITIES = [
  "state", "patches", "affordances", "attention", "windowing", "x-base", "x-fields", "x-resume",
  "x-retain", "x-actions-hint", "x-served", "async", "content_refs",
];
const CODES = ["not_found", "invalid_params", "unauthorized", "conflict", "internal"];
const LEVELS = 64;
const ID_BYTES = 256;
const STRING_BYTES = 256 * 1024;
const MESSAGE_CHARS = 1024 * 1024;
const SNAPSHOT_CHARS = 16 * 1024 * 1024;
const SNAPSHOT_NODES = 50_000;
const NODE_CHARS = '{"id":"a","type":"b"}'.length;
const OP_CHARS = '{"op":"replace","path":"","value":},'.length;
const PATCH_OPS = 1024;
const QUEUE_BYTES = 256 * 1024;
const MOST = 64;
const KEPT_VERSIONS = 16;
const WINDOW = 50;
const LOOK_UP = 10_000;
const PIECE = 128 * 1024;
const LAST = 2 ** 30;
const HUB = "ws://127.0.0.1:9339/slop";

/** What an action or a hook throws to say why not, by one of the protocol's codes. */
export class ActionError extends Error {
  /** @param {string} code @param {string} message */
  constructor(code, message) {
    super(message);
    this.code = code;
  }
}

/** @returns {never} */
function fault(path, reason) {
  throw new TypeError(`${path}: ${reason}`);
}

// JSON

const bytes = (text) => new TextEncoder().encode(text).length;
const isObject = (value) => Object.prototype.toString.call(value) === "[object Object]";
const isCount = (value) => Number.isSafeInteger(value) && value >= 0;
const isShare = (value) => typeof value === "number" && value >= 0 && value <= 1;
const isText = (value) => typeof value === "string";
const isNames = (value) => Array.isArray(value) && value.every(isText);
const isWindow = (value) => Array.isArray(value) && value.length === 2 && value.every(isCount);
const random = () =>
  [...crypto.getRandomValues(new Uint8Array(4))].map((n) => n.toString(16).padStart(2, "0")).join("");

/** Whether two values say the same, order of members included. */
function same(a, b) {
  if (a === b) return true;
  if (typeof a !== "object" || typeof b !== "object" || a === null || b === null) return false;
  if (Array.isArray(a) || Array.isArray(b)) {
    if (!Array.isArray(a) || !Array.isArray(b) || a.length !== b.length) return false;
    for (let i = 0; i < a.length; i++) if (!same(a[i], b[i])) return false;
    return true;
  }
  const keys = Object.keys(a);
  const others = Object.keys(b);
  if (keys.length !== others.length) return false;
  for (let i = 0; i < keys.length; i++) {
    if (keys[i] !== others[i] || !same(a[keys[i]], b[keys[i]])) return false;
  }
  return true;
}

/** A copy of a value that is JSON; members that are undefined are left out. */
function clean(value, path, level = 1) {
  if (value === null || typeof value === "boolean") return value;
  if (typeof value === "number") {
    return Number.isFinite(value) ? value : fault(path, "must not be NaN or Infinity");
  }
  if (isText(value)) return cleanText(value, path);
  if (typeof value?.toJSON === "function") return clean(value.toJSON(), path, level);
  if (level > LEVELS) fault(path, `a value must not nest deeper than ${LEVELS} levels`);
  if (Array.isArray(value)) return value.map((item) => clean(item, path, level + 1));
  if (!isObject(value)) fault(path, `a ${typeof value} is not a JSON value`);
  return Object.fromEntries(
    Object.entries(value)
      .filter(([, member]) => member !== undefined)
      .map(([key, member]) => [cleanText(key, path), clean(member, `${path}.${key}`, level + 1)]),
  );
}

function cleanText(text, path) {
  if (!text.isWellFormed()) fault(path, "a string must not contain a lone surrogate");
  if (text.length * 3 > STRING_BYTES && bytes(text) > STRING_BYTES) {
    fault(path, `a string must not be longer than ${STRING_BYTES} bytes`);
  }
  return text;
}

/** What was known, where the same is said again; else a copy of what is said. */
function settled(known, given, path) {
  if (same(known, given)) return known;
  const copy = clean(given, path);
  return same(known, copy) ? known : copy;
}

// Ids and paths

function idProblem(id) {
  if (!isText(id) || !id) return "an id must be a string that is not empty";
  if (RESERVED.includes(id)) return `an id must not be the reserved field name '${id}'`;
  if (/[/~]/.test(id)) return `an id must not contain '/' or '~': '${id.slice(0, 80)}'`;
  if (!id.isWellFormed()) return "an id must not contain a lone surrogate";
  if (id.length * 3 > ID_BYTES && bytes(id) > ID_BYTES) {
    return `an id must not be longer than ${ID_BYTES} bytes`;
  }
}

/**
 * The legal id of a string that is not too long for one: a URL, a file path, a foreign key.
 * @param {string} text
 */
export function legalId(text) {
  if (!text) return "%";
  const escaped = text
    .toWellFormed()
    .replace(/[%/~\x00-\x1f\x7f-\x9f\u2028\u2029]/g, (char) =>
      [...new TextEncoder().encode(char)]
        .map((byte) => `%${byte.toString(16).toUpperCase().padStart(2, "0")}`)
        .join(""),
    );
  const legal = RESERVED.includes(escaped)
    ? `%${escaped.charCodeAt(0).toString(16)}${escaped.slice(1)}`
    : escaped;
  return idProblem(legal) ? fault(text.slice(0, 80), idProblem(legal)) : legal;
}

function split(path) {
  const body = path.replace(/^\//, "").replace(/\/$/, "");
  if (!body && path !== "" && path !== "/") fault(path, "a path must not have empty segments");
  const ids = body ? body.split("/") : [];
  if (ids.includes("")) fault(path, "a path must not have empty segments");
  return ids;
}

function checkedIds(path) {
  const ids = split(path);
  for (const id of ids) if (idProblem(id)) fault(path, idProblem(id));
  if (ids.length >= LEVELS) fault(path, `a path must not have ${LEVELS} levels or more`);
  return ids;
}

/** The path of a child; that of the root where there is no parent. */
const join = (parent, id) => (parent === null ? "/" : parent === "/" ? `/${id}` : `${parent}/${id}`);
const format = (ids) => `/${ids.join("/")}`;
const escape = (token) => token.replaceAll("~", "~0").replaceAll("/", "~1");
const childOf = (node, id) => node.children?.find((child) => child.id === id);

function nodeAt(node, ids) {
  for (const id of ids) {
    if (!node) return undefined;
    node = childOf(node, id);
  }
  return node;
}

// SLOP, state tree, affordances, content references: what their members may be.
const oneOf = (...names) => [(value) => names.includes(value), `must be one of ${names.join(" ")}`];
const STRING = [isText, "must be a string"];
const BOOL = [(value) => typeof value === "boolean", "must be true or false"];
const COUNT = [isCount, "must be a whole number, 0 or more"];
const OBJECT = [isObject, "must be an object"];
const META = {
  summary: STRING, salience: [isShare, "must be a number from 0 to 1"], pinned: BOOL,
  changed: BOOL, focus: BOOL, urgency: oneOf("none", "low", "medium", "high", "critical"),
  reason: STRING, total_children: COUNT, window: [isWindow, "must be [offset, count]"],
  created: STRING, updated: STRING, available_actions: [isNames, "must be a list of strings"],
};
const AFFORDANCE = {
  label: STRING, description: STRING, params: OBJECT, dangerous: BOOL, idempotent: BOOL,
  estimate: oneOf("instant", "fast", "slow", "async"), returns: OBJECT,
};
const CONTENT = {
  type: oneOf("text", "binary", "stream"), mime: STRING, uri: STRING, summary: STRING, size: COUNT,
  preview: STRING, encoding: STRING, hash: STRING,
};

function checkMembers(value, rules, path, key) {
  for (const [name, [holds, text]] of Object.entries(rules)) {
    if (Object.hasOwn(value, name) && value[name] !== null && !holds(value[name])) {
      fault(path, `${key}.${name} ${text}`);
    }
  }
}

// Actions

const ANNOTATIONS = ["title", "description", "default", "examples", "format", "deprecated", "$schema", "$comment", "readOnly", "writeOnly"];
const TYPES = {
  string: isText, boolean: BOOL[0], object: isObject, array: Array.isArray, integer: Number.isInteger,
  number: (value) => typeof value === "number", null: (value) => value === null,
};
const length = (value) => [...value].length;
/** Each keyword of JSON Schema that is checked: what is wrong with a value, or nothing. */
const KEYWORDS = {
  type: (types, v) => ![types].flat().some((type) => TYPES[type](v)) && `is not of type ${JSON.stringify(types)}`,
  enum: (values, v) => !values.some((value) => same(value, v)) && `is not one of ${JSON.stringify(values)}`,
  const: (value, v) => !same(value, v) && `is not ${JSON.stringify(value)}`,
  minimum: (n, v) => v < n && `is less than ${n}`,
  maximum: (n, v) => v > n && `is more than ${n}`,
  exclusiveMinimum: (n, v) => v <= n && `is not more than ${n}`,
  exclusiveMaximum: (n, v) => v >= n && `is not less than ${n}`,
  multipleOf: (n, v) => typeof v === "number" && !Number.isInteger(v / n) && `is not a multiple of ${n}`,
  minLength: (n, v) => isText(v) && length(v) < n && `is shorter than ${n} characters`,
  maxLength: (n, v) => isText(v) && length(v) > n && `is longer than ${n} characters`,
  pattern: (text, v) => isText(v) && !new RegExp(text, "u").test(v) && `does not match ${JSON.stringify(text)}`,
  minItems: (n, v) => Array.isArray(v) && v.length < n && `has fewer than ${n} items`,
  maxItems: (n, v) => Array.isArray(v) && v.length > n && `has more than ${n} items`,
  uniqueItems: (is, v) => is && Array.isArray(v) && v.some((a, i) => v.slice(0, i).some((b) => same(a, b))) && "has equal items",
  required: (names, v) => {
    const missing = isObject(v) && names.find((name) => !Object.hasOwn(v, name));
    return isText(missing) && `"${missing}" is a required property`;
  },
};
for (const name of ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"]) {
  const broken = KEYWORDS[name];
  KEYWORDS[name] = (n, v) => typeof v === "number" && broken(n, v);
}

/** What of a value does not fit a schema, with its place; undefined if it fits. */
function misfit(schema, value, at = "") {
  if (typeof schema === "boolean") return schema ? undefined : `${at || "/"}: is not allowed`;
  for (const [name, rule] of Object.entries(schema)) {
    const wrong = Object.hasOwn(KEYWORDS, name) && KEYWORDS[name](rule, value);
    if (wrong) return `${at || "/"}: ${JSON.stringify(value).slice(0, 80)} ${wrong}`;
  }
  const parts = [];
  if (isObject(value)) {
    for (const [name, member] of Object.entries(value)) {
      const known = schema.properties && Object.hasOwn(schema.properties, name);
      const rule = known ? schema.properties[name] : schema.additionalProperties;
      if (rule !== undefined) parts.push([rule, member, name]);
    }
  } else if (Array.isArray(value) && schema.items !== undefined) {
    value.forEach((item, i) => parts.push([schema.items, item, i]));
  }
  for (const [rule, part, name] of parts) {
    const wrong = misfit(rule, part, `${at}/${escape(String(name))}`);
    if (wrong) return wrong;
  }
  const fits = (other) => misfit(other, value, at) === undefined;
  const all = schema.allOf?.map((other) => misfit(other, value, at)).find(Boolean);
  if (all) return all;
  const any = schema.anyOf && !schema.anyOf.some(fits);
  const one = schema.oneOf && schema.oneOf.filter(fits).length !== 1;
  if (any || one || (schema.not !== undefined && fits(schema.not))) {
    return `${at || "/"}: does not fit the schema`;
  }
}

/** Refuse a schema that is not one, or says what is not checked here. */
function checkSchema(schema, path) {
  if (typeof schema === "boolean") return;
  if (!isObject(schema)) fault(path, "must be a JSON Schema");
  for (const [name, rule] of Object.entries(schema)) {
    if (name === "properties") Object.values(rule).forEach((part) => checkSchema(part, path));
    else if (["items", "additionalProperties", "not"].includes(name)) checkSchema(rule, path);
    else if (["allOf", "anyOf", "oneOf"].includes(name)) rule.forEach((part) => checkSchema(part, path));
    else if (name === "type" && ![rule].flat().every((type) => Object.hasOwn(TYPES, type))) fault(path, `there is no type ${rule}`);
    else if (name === "pattern") new RegExp(rule, "u");
    else if (!Object.hasOwn(KEYWORDS, name) && !ANNOTATIONS.includes(name)) fault(path, `'${name}' is not checked here`);
  }
}

/** A given schema in full, if it is the short kind. */
function fullSchema(given) {
  if (given.type === "object") return given;
  const members = Object.entries(given).map(([name, part]) => [name, isText(part) ? { type: part } : part]);
  if (!members.length) return { type: "object" };
  return { type: "object", properties: Object.fromEntries(members), required: Object.keys(given) };
}

const OPTIONS = ["label", "description", "params", "dangerous", "idempotent", "estimate", "returns"];
const HOOKS = ["guard", "authorize", "when", "refreshes"];

function makeAction(name, handler, path, options = {}) {
  const where = `${path} actions.${name}`;
  if (!name) fault(where, "must be a name");
  if (typeof handler !== "function") fault(where, "must have a handler to call");
  const affordance = { action: cleanText(name, where) };
  for (const option of Object.keys(options)) {
    if (![...OPTIONS, ...HOOKS].includes(option)) fault(where, `there is no option '${option}'`);
  }
  for (const option of OPTIONS) {
    const given = options[option];
    if (given === undefined || given === null || given === false) continue;
    const isSchema = option === "params" || option === "returns";
    if (isSchema && !isObject(given)) fault(where, `${option} must be a JSON Schema, an object`);
    affordance[option] = clean(isSchema ? fullSchema(given) : given, where);
  }
  checkMembers(affordance, AFFORDANCE, where, "actions");
  if (affordance.params) checkSchema(affordance.params, where);
  const { guard, authorize, when, refreshes } = options;
  return { name, handler, affordance, guard, authorize, when, refreshes, names: undefined };
}

// Descriptors

const KEYS = new Set([
  "id", "type", "props", "properties", "summary", "items", "children", "window", "meta", "actions",
  "content_ref", "contentRef",
]);

/** The node that a descriptor says; the one that was known, where it says the same. */
function build(given, parent, id, type, known, found, level) {
  if (!isObject(given)) fault(join(parent, id), "must be a descriptor, an object");
  if (level > LEVELS) fault(join(parent, id), `is more than ${LEVELS} levels deep`);
  for (const key of Object.keys(given)) {
    if (!KEYS.has(key)) fault(join(parent, id), `'${key}' is not one of ${[...KEYS].join(" ")}`);
  }
  if (given.props && given.properties) fault(join(parent, id), "'properties' is given twice");
  const fields = { id, type: given.type ?? type };
  if (!isText(fields.type) || !fields.type) fault(join(parent, id), "type must be a name");
  if (!known) {
    const problem = idProblem(id);
    if (problem && parent !== null) fault(parent, problem);
    cleanText(fields.type, join(parent, id));
  }
  const properties = given.props ?? given.properties ?? undefined;
  if (properties !== undefined && !isObject(properties)) fault(join(parent, id), "props must be an object");
  fields.properties = properties && settled(known?.properties, properties, join(parent, id));
  fields.meta = metaOf(given, known?.meta, parent, id);
  fields.affordances = undefined;
  if (given.actions) {
    const path = join(parent, id);
    const offered = Object.entries(given.actions).map(([name, item]) => inline(name, item, path));
    if (offered.length) {
      found.set(path, offered);
      fields.affordances = settled(known?.affordances, offered.map((item) => item.affordance), path);
    }
  }
  fields.content_ref = contentOf(given.content_ref ?? given.contentRef, known?.content_ref, parent, id);
  fields.children = childrenOf(given, parent, id, known, found, level);
  const kept =
    known && known.type === fields.type && known.properties === fields.properties &&
    known.meta === fields.meta && known.affordances === fields.affordances &&
    known.content_ref === fields.content_ref && known.children === fields.children;
  return kept ? known : fields;
}

function inline(name, item, path) {
  if (typeof item === "function") return makeAction(name, item, path);
  if (!isObject(item)) fault(path, `actions.${name} must be a function, or an object with a 'handler'`);
  const { handler, ...options } = item;
  return makeAction(name, handler, path, options);
}

function metaOf(given, known, parent, id) {
  const { meta, summary, window } = given;
  if (meta == null && summary == null && !window) return undefined;
  const path = join(parent, id);
  if (meta != null && !isObject(meta)) fault(path, "meta must be an object");
  const { totalChildren, availableActions, ...all } = meta ?? {};
  if (totalChildren !== undefined) all.total_children = totalChildren;
  if (availableActions !== undefined) all.available_actions = availableActions;
  if (summary != null) all.summary = summary;
  if (window) {
    if (!Array.isArray(window.items)) fault(path, "window must have 'items', a list");
    const { offset = 0 } = window;
    // SLOP, scaling: a window sets meta.total_children and meta.window.
    all.total_children = window.total ?? offset + window.items.length;
    all.window = [offset, window.items.length];
  }
  if (!Object.keys(all).length) return undefined;
  const found = settled(known, all, path);
  if (found !== known) checkMembers(found, META, path, "meta");
  return found;
}

function contentOf(given, known, parent, id) {
  if (given == null) return undefined;
  const path = join(parent, id);
  if (!isObject(given)) fault(path, "content_ref must be an object");
  const isTextual = /^text\/|(json|xml|yaml)$/.test(given.mime ?? "");
  const content = { type: isTextual ? "text" : "binary", uri: `slop://content${path}`, ...given };
  const found = settled(known, content, path);
  for (const name of ["type", "mime", "uri", "summary"]) {
    if (found[name] == null) fault(path, `content_ref must have '${name}'`);
  }
  checkMembers(found, CONTENT, path, "content_ref");
  return found;
}

function childrenOf(given, parent, id, known, found, level) {
  let items = given.items === undefined ? given.children : given.items;
  if (given.window) {
    if (items !== undefined) fault(join(parent, id), "window stands instead of 'items'");
    items = given.window.items;
  }
  if (items == null) return items;
  const path = join(parent, id);
  items = [...listed(items, path)];
  if (given.items !== undefined && given.children !== undefined) {
    if (!isObject(given.children)) fault(path, "children is given twice, as 'items' too");
    items.push(...listed(given.children, path));
  }
  const before = known?.children ?? [];
  let byId;
  let isAligned = true;
  const children = items.map((item, at) => {
    const childId = typeof item?.id === "number" ? String(item.id) : item?.id;
    if (!isText(childId)) fault(path, `items[${at}] must have an id, a string or a whole number`);
    let past = before[at];
    if (past?.id !== childId) {
      isAligned = false;
      byId ??= new Map(before.map((child) => [child.id, child]));
      past = byId.get(childId);
    }
    return build(item, path, childId, "item", past, found, level + 1);
  });
  if (!isAligned && new Set(children.map((child) => child.id)).size !== children.length) {
    fault(path, "ids must be unique among siblings");
  }
  return keptList(known?.children, children);
}

function listed(items, path) {
  if (isObject(items)) return Object.entries(items).map(([id, item]) => ({ ...item, id: item?.id ?? id }));
  return typeof items[Symbol.iterator] === "function" && !isText(items) ? items : fault(path, "items must be a list of descriptors");
}

/** The list that was known, if the new one has the very same nodes. */
function keptList(known, list) {
  return known?.length === list.length && list.every((item, at) => item === known[at]) ? known : list;
}

// What changed

const FIELDS = ["properties", "meta", "affordances", "content_ref"];
const presence = (list) => (Array.isArray(list) ? "list" : list);
const sameFields = (a, b) => a.type === b.type && FIELDS.every((name) => same(a[name], b[name]));
const isMembers = (name, value) => (name === "properties" || name === "meta") && value != null;

/**
 * The operations that turn one tree into another. Mirrors of the 0.2 era mishandle some field
 * operations: without `fields` such a change replaces the whole child.
 */
function diff(old, next, fields, path = "", ops = []) {
  if (old === next) return ops;
  const changes = fieldChanges(old, next, path);
  if (!changes || (path && changes.isRisky && !(fields && pays(changes.ops, next)))) {
    ops.push({ op: "replace", path: path || "/", value: next });
    return ops;
  }
  ops.push(...changes.ops);
  if (Array.isArray(next.children)) {
    for (const [a, b] of childOps(old.children ?? [], next.children, path, ops)) {
      diff(a, b, fields, `${path}/${b.id}`, ops);
    }
  }
  return ops;
}

/** How a node's own fields changed; nothing where no field operation can say it. */
function fieldChanges(old, next, path) {
  const changes = { ops: [], isRisky: false };
  const turns = !next.children?.length && presence(old.children) !== presence(next.children);
  if (!turns && old.id === next.id && sameFields(old, next)) return changes;
  if (old.id !== next.id || old.type !== next.type) return undefined;
  for (const name of FIELDS) {
    const [before, after, where] = [old[name], next[name], `${path}/${name}`];
    if (same(before, after)) continue;
    if (isMembers(name, before) && isMembers(name, after)) {
      memberOps(before, after, where, changes.ops);
      changes.isRisky ||= !Object.keys(before).length || !same(before[""], after[""]);
    } else {
      changes.ops.push(fieldOp(before, after, where));
      changes.isRisky = true;
    }
  }
  if (turns) {
    changes.ops.push(fieldOp(old.children, next.children, `${path}/children`));
    changes.isRisky = true;
  }
  return changes;
}

function fieldOp(before, after, path) {
  if (after === undefined) return { op: "remove", path };
  return { op: before === undefined ? "add" : "replace", path, value: after };
}

/** Change members so that their order comes out right, when an add goes to the end. */
function memberOps(old, next, where, ops) {
  const places = new Map(Object.keys(old).map((key, at) => [key, at]));
  const staying = new Set();
  let last = -1;
  for (const key of Object.keys(next)) {
    const place = places.get(key) ?? -1;
    if (place <= last) break;
    staying.add(key);
    last = place;
  }
  const path = (key) => `${where}/${escape(key)}`;
  for (const key of places.keys()) if (!staying.has(key)) ops.push({ op: "remove", path: path(key) });
  for (const key of staying) {
    if (!same(old[key], next[key])) ops.push({ op: "replace", path: path(key), value: next[key] });
  }
  for (const [key, value] of Object.entries(next)) {
    if (!staying.has(key)) ops.push({ op: "add", path: path(key), value });
  }
}

/** Whether operations take fewer bytes than the node. */
function pays(ops, node) {
  let left = 0;
  for (const op of ops) {
    left += OP_CHARS + length(op.path) + (op.op === "remove" ? 0 : bytes(JSON.stringify(op.value)));
  }
  const stack = [node];
  while (stack.length && left >= 0) {
    const here = stack.pop();
    left -= NODE_CHARS + length(here.id) + length(here.type);
    for (const name of FIELDS) if (here[name] !== undefined) left -= bytes(JSON.stringify(here[name]));
    stack.push(...(here.children ?? []));
  }
  return left < 0;
}

/** Add, remove and reorder children; returns the pairs that are left to compare. */
function childOps(old, next, path, ops) {
  const pairs = [];
  const stop = Math.min(old.length, next.length);
  let start = 0;
  while (start < stop && (old[start] === next[start] || old[start].id === next[start].id)) {
    if (old[start] !== next[start]) pairs.push([old[start], next[start]]);
    start++;
  }
  const tail = [];
  let [a, b] = [old.length - 1, next.length - 1];
  for (; a >= start && b >= start && old[a].id === next[b].id; a--, b--) {
    if (old[a] !== next[b]) tail.push([old[a], next[b]]);
  }
  if (a >= start || b >= start) {
    pairs.push(...rearrange(old.slice(start, a + 1), next.slice(start, b + 1), path, start, ops));
  }
  return [...pairs, ...tail.reverse()];
}

function rearrange(old, next, path, first, ops) {
  const wanted = new Set(next.map((node) => node.id));
  const stays = new Map();
  for (const node of old) {
    if (wanted.has(node.id)) stays.set(node.id, [stays.size, node]);
    else ops.push({ op: "remove", path: `${path}/${node.id}` });
  }
  const kept = next.filter((node) => stays.has(node.id));
  for (const [at, index] of moves(kept.map((node) => stays.get(node.id)[0]))) {
    ops.push({ op: "move", path: `${path}/${kept[at].id}`, index: first + index });
  }
  next.forEach((node, at) => {
    if (!stays.has(node.id)) ops.push({ op: "add", path: `${path}/${node.id}`, value: node, index: first + at });
  });
  return kept.map((node) => [stays.get(node.id)[1], node]).filter(([one, other]) => one !== other);
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

/** Whether operations change a root in a way that such a mirror cannot follow. */
function needsSnapshot(root, ops, fields) {
  return ops.some(({ path }) => {
    const [field, ...tokens] = path.slice(1).split("/");
    if (field && field !== "children" && !FIELDS.includes(field)) return false;
    if (fields && field) return false;
    if (!tokens.length || tokens.includes("")) return true;
    return isMembers(field, {}) && !Object.keys(root[field] ?? {}).length;
  });
}

// What a subscriber sees

const totalOf = (node) => node.meta?.total_children ?? node.children?.length ?? 0;

function stub(node) {
  const actions = node.affordances?.map((item) => item.action);
  // SLOP, state tree: a depth stub keeps id, type and meta.
  return { id: node.id, type: node.type, meta: withTotal(node, actions?.length ? { available_actions: actions } : {}) };
}

function compacted({ id, type, properties, affordances, ...node }) {
  if (!properties && !affordances) properties = {};
  const hints = node.meta?.summary ? {} : { summary: `${totalOf(node)} children` };
  // SLOP, state tree: a compacted node drops children and content_ref.
  return { id, type, properties, affordances, meta: withTotal(node, hints) };
}

function withTotal(node, hints) {
  if (node.meta?.total_children == null) hints.total_children = node.children.length;
  return { ...node.meta, ...hints };
}

/** A step that rewrites nodes with children; what it made of one is remembered with it. */
function rewriter(enter, leave = (_node, _distance) => true) {
  const memories = [];
  return function rewrite(node, distance = 0) {
    const decided = enter(node, distance);
    if (decided !== undefined || !node.children?.length) return decided === undefined ? node : decided;
    memories[distance] ??= new WeakMap();
    const known = memories[distance].get(node);
    if (known !== undefined) return known;
    const children = node.children.map((child) => rewrite(child, distance + 1)).filter(Boolean);
    let result = keptList(node.children, children) === node.children ? node : { ...node, children };
    if (!children.length && !leave(node, distance)) result = null;
    memories[distance].set(node, result);
    return result;
  };
}

function filtered({ types, minSalience, retain }) {
  const passes = (node) =>
    (!types || types.includes(node.type)) &&
    (minSalience == null || (node.meta?.salience ?? 0.5) >= minSalience);
  return rewriter(
    (node, distance) => {
      if (distance === 0) return undefined;
      const passed = passes(node);
      if (node.children?.length && (passed || retain)) return undefined;
      return passed ? node : null;
    },
    (node, distance) => !retain || distance === 0 || passes(node),
  );
}

function truncated(depth) {
  return rewriter((node, distance) => {
    if (!node.children?.length) return node;
    return distance < depth ? undefined : stub(node);
  });
}

/** Collapse the lowest-scoring subtrees until so many nodes are left. */
function compact(root, most) {
  const seen = [];
  (function look(node, parent, distance) {
    const isPinned = node.meta?.pinned === true || !!parent?.isPinned;
    const own = { node, distance, at: seen.length, below: 0, kids: [], isPinned, isKept: isPinned };
    seen.push(own);
    own.kids = (node.children ?? []).map((child) => look(child, own, distance + 1));
    own.below = seen.length - own.at - 1;
    if (parent) parent.isKept ||= own.isKept;
    return own;
  })(root, null, 0);
  let excess = seen.length - most;
  if (excess <= 0) return root;
  const score = ({ node, distance, below }) => (node.meta?.salience ?? 0.5) - distance * 0.01 - below * 0.001;
  const scored = seen
    .filter((one) => one.below && one.distance > 1 && !one.isKept)
    .map((one) => [score(one), one])
    .sort(([a, one], [b, other]) => a - b || one.at - other.at);
  const gone = new Uint8Array(seen.length);
  const collapsed = new Set();
  for (const [, one] of scored) {
    if (excess <= 0) break;
    if (gone[one.at]) continue;
    for (let at = one.at + 1; at <= one.at + one.below; at++) {
      excess -= gone[at] ? 0 : 1;
      gone[at] = 1;
    }
    collapsed.add(one);
  }
  return (function cut(one) {
    const { node, kids } = one;
    if (collapsed.has(one)) return compacted(node);
    if (!kids.length) return node;
    const children = keptList(node.children, kids.map(cut));
    return children === node.children ? node : { ...node, children };
  })(seen[0]);
}

function windowed(root, [offset, count]) {
  const first = root.meta?.window?.[0] ?? 0;
  const start = Math.max(offset - first, 0);
  const children = (root.children ?? []).slice(start, Math.max(offset + count - first, 0));
  const window = [children.length ? first + start : offset, children.length];
  return { ...root, meta: { ...root.meta, window, total_children: totalOf(root) }, children };
}

function projector(view) {
  const steps = [];
  if (view.types || view.minSalience != null) steps.push(filtered(view));
  if (view.depth >= 0) steps.push(truncated(view.depth));
  if (view.maxNodes != null) steps.push((root) => compact(root, view.maxNodes));
  if (view.window) steps.push((root) => windowed(root, view.window));
  return (root) => steps.reduce((node, step) => step(node), root);
}

function countNodes(node) {
  let count = 1;
  for (const child of node.children ?? []) count += countNodes(child);
  return count;
}

// The app

/** A step in a tree of path patterns: what ends here by name, and the next steps. */
class Branch {
  ends = new Map();
  /** @type {Map<string, Branch>} */
  literal = new Map();
  /** @type {Branch | null} */
  hole = null;

  /** Put a value at a pattern, and tell it the names of the holes. */
  grow(path, name, value) {
    /** @type {Branch} */
    let branch = this;
    value.names = checkedIds(path).map((id) => {
      const hole = /^\{([A-Za-z_]\w*)\}$/.exec(id)?.[1];
      if (hole) return (branch = branch.hole ??= new Branch()) && hole;
      if (/[{}]/.test(id)) fault(path, `'${id}' is not a hole: write '{name}'`);
      if (!branch.literal.has(id)) branch.literal.set(id, new Branch());
      branch = /** @type {Branch} */ (branch.literal.get(id));
      return null;
    });
    branch.ends.set(name, value);
  }

  into(id) {
    return [this.literal.get(id), this.hole].filter((next) => next != null);
  }

  find(ids, name) {
    /** @type {Branch[]} */
    let branches = [this];
    for (const id of ids) branches = branches.flatMap((branch) => branch.into(id));
    return branches.find((branch) => branch.ends.has(name))?.ends.get(name);
  }
}

const holesOf = (names, ids) => Object.fromEntries(names.flatMap((name, at) => (name ? [[name, ids[at]]] : [])));

/** The patterns that fit the nodes at one place, and what they made of those. */
class Way {
  /** @param {Branch[]} branches */
  constructor(branches) {
    this.branches = branches;
    this.actions = new Map();
    for (const [name, action] of branches.flatMap((branch) => [...branch.ends])) {
      if (!this.actions.has(name)) this.actions.set(name, action);
    }
    this.goesOn = branches.some((branch) => branch.literal.size || branch.hole);
    this.literal = new Map();
    /** @type {Way | null | undefined} */
    this.other = undefined;
    this.made = new WeakMap();
  }

  into(id) {
    if (!this.branches.some((branch) => branch.literal.has(id))) {
      if (this.other === undefined) this.other = this.next(id);
      return this.other;
    }
    if (!this.literal.has(id)) this.literal.set(id, this.next(id));
    return this.literal.get(id);
  }

  next(id) {
    const further = this.branches.flatMap((branch) => branch.into(id));
    return further.length ? new Way(further) : null;
  }

  /** Hang the actions of patterns on a node and those below; anew only where it changed. */
  expose(node, closed, old, past) {
    if (closed.has(node)) return node;
    if (old === node) return past;
    let result = this.made.get(node);
    if (result) return result;
    result = this.withActions(node);
    if (this.goesOn && node.children?.length) {
      const children = node.children.map((child, at) => {
        const way = this.into(child.id);
        const before = old?.children?.[at];
        return way ? way.expose(child, closed, before, before && past.children[at]) : child;
      });
      if (keptList(node.children, children) !== node.children) result = { ...result, children };
    }
    this.made.set(node, result);
    return result;
  }

  withActions(node) {
    const shown = node.affordances ?? [];
    const added = [];
    for (const [name, action] of this.actions) {
      if (!shown.some((item) => item.action === name) && applies(action, node)) added.push(action.affordance);
    }
    return added.length ? { ...node, affordances: [...shown, ...added] } : node;
  }
}

function applies(action, node) {
  try {
    return !action.when || !!action.when(node.properties ?? {});
  } catch (error) {
    console.error(`the condition of action '${action.name}' failed; it is not offered`, error);
    return false;
  }
}

/** One path of the composed tree: what stands there, what is below it, and the sum of both. */
class Entry {
  /** @type {Node | null} */
  node = null;
  isClosed = false;
  /** @type {Map<string, Entry>} */
  below = new Map();
  /** @type {Node | null} */
  composed = null;
  /** @type {Node | undefined} */
  described = undefined;

  constructor(rank) {
    this.rank = rank;
  }

  /** @returns {Node} */
  compose(id, described) {
    if (!this.node && this.described !== described) this.composed = null;
    if (!this.composed) {
      this.described = described;
      const node = this.node ?? described ?? { id, type: "group" };
      const isWhole = !this.below.size || this.isClosed;
      this.composed = isWhole ? node : { ...node, children: this.children(node) };
    }
    return this.composed;
  }

  children(node) {
    const own = new Map((node.children ?? []).map((child) => [child.id, child]));
    for (const [id, entry] of [...this.below].sort(([, a], [, b]) => a.rank - b.rank)) {
      // SLOP, state tree: a window is a contiguous slice of all the children.
      if (!node.meta?.window || own.has(id)) own.set(id, entry.compose(id, own.get(id)));
    }
    return [...own.values()];
  }
}

/** A node of which something changed, with the way to it made anew. */
function changeAt(node, ids, how) {
  if (!ids.length) return how(node);
  const at = node.children?.findIndex((child) => child.id === ids[0]) ?? -1;
  if (at < 0) fault(format(ids), "nothing is shown there now");
  return { ...node, children: node.children.with(at, changeAt(node.children[at], ids.slice(1), how)) };
}

/** `meta.changed` on whatever is different from an earlier tree. */
function marked(old, node) {
  if (old === node) return node;
  const result = old && sameFields(old, node) ? node : { ...node, meta: { ...node.meta, changed: true } };
  if (!old || !node.children?.length) return result;
  const before = new Map((old.children ?? []).map((child) => [child.id, child]));
  const children = keptList(node.children, node.children.map((child) => marked(before.get(child.id), child)));
  return children === node.children ? result : { ...result, children };
}

/** A part of an app's tree, by its path. */
class Scope {
  /** @param {any} app @param {string} prefix */
  constructor(app, prefix) {
    this._app = app ?? this;
    this._prefix = prefix;
  }

  _full(path) {
    return [this._prefix, path.replace(/^\/|\/$/g, "")].filter(Boolean).join("/");
  }

  /** The scope of a path below this one. @param {string} prefix */
  scope(prefix) {
    checkedIds(prefix);
    return new Scope(this._app, this._full(prefix));
  }

  /**
   * Let a function, or an observable value, say what stands at a path: a descriptor, or null for
   * nothing. A function is asked when somebody looks, after every action and by `refresh`.
   * @param {string} path
   * @param {(() => Descriptor | null | undefined) | Observable} source
   * @param {(value: any) => Descriptor | null | undefined} [map] makes the descriptor of a value
   * @returns {() => void} takes it away again
   */
  node(path, source, map = (value) => value) {
    const ids = checkedIds(this._full(path));
    if (typeof source === "function") {
      const ask = /** @type {() => any} */ (source);
      return this._app._register(ids, { ask: () => map(ask()) });
    }
    if (typeof source?.subscribe !== "function") fault(path, "takes a function or an observable value");
    let value;
    const own = { ask: () => (value == null ? null : map(value)), end: () => {} };
    const stop = this._app._register(ids, own);
    const ended = source.subscribe((next) => {
      value = next;
      this._app._due(own);
    });
    own.end = () => (typeof ended === "function" ? ended() : ended?.unsubscribe?.());
    return stop;
  }

  /**
   * Like `node`, for one of several views of which one is open; the others are stubs.
   * @param {string} path @param {() => Descriptor} source
   * @param {{summary?: string | (() => string)}} [options]
   */
  view(path, source, { summary } = {}) {
    const ids = checkedIds(this._full(path));
    const app = this._app;
    const key = ids.join("/");
    if (!app._views.includes(key)) app._views.push(key);
    return app._register(ids, {
      isView: true,
      isClosed: () => !app._isOpen(key),
      ask: () => {
        const text = typeof summary === "function" ? summary() : summary;
        // SLOP, scaling: an inactive view is a stub with a summary; the active one has meta.focus.
        if (!app._isOpen(key)) return { type: "view", summary: text };
        const shown = { type: "view", summary: text, ...source() };
        return app._focused === key || (!app._focused && app._views[0] === key)
          ? { ...shown, meta: { ...shown.meta, focus: true } }
          : shown;
      },
    });
  }

  /**
   * Put a descriptor at a path, in the place of what was there.
   * @param {string} path @param {Descriptor} descriptor
   */
  register(path, descriptor) {
    const ids = checkedIds(this._full(path));
    const found = new Map();
    const node = this._app._built(ids, descriptor, undefined, found);
    return this._app._register(ids, { node, actions: found });
  }

  /** Take away what was registered at a path. @param {string} path */
  unregister(path) {
    const key = format(checkedIds(this._full(path)));
    const known = this._app._registrations.get(key) ?? fault(key, "nothing is registered there");
    this._app._unregister(known);
  }

  /**
   * Let a function do an action of the nodes that fit a path, which may have holes: `list/{id}`.
   * It is called with the params and what stands in the holes, in one object, and the call.
   * @param {string} path @param {string} name @param {Handler} handler @param {ActionOptions} [options]
   */
  action(path, name, handler, options) {
    const full = this._full(path);
    this._app._addAction(full, makeAction(name, handler, `/${full}`, options));
  }

  /**
   * Let a function give the content of the nodes that fit a path, as text or bytes.
   * @param {string} path @param {(holes: any) => any} reader
   * @param {{when?: (properties: any) => any}} [options]
   */
  content(path, reader, { when } = {}) {
    const number = (description, value) => ({ description, type: "integer", default: value });
    this.action(path, "read_content", async ({ offset = 0, length = PIECE, ...holes }) => piece(await reader(holes), offset, length), {
      description: "Read this node's content",
      params: {
        type: "object",
        properties: { offset: number("Where to start", 0), length: number("How much to read at most", PIECE) },
      },
      idempotent: true,
      refreshes: [],
      when,
    });
  }

  /**
   * Let a function make the children of the nodes that fit a path, when a query asks. It takes the
   * holes, and `offset` and `count` if it is `windowed`: then it may return `{items, total}`.
   * @param {string} path @param {(given: any) => any} resolve @param {{windowed?: boolean}} [options]
   */
  children(path, resolve, { windowed: isWindowed = false } = {}) {
    this._app._resolvers.grow(this._full(path), "", { resolve, isWindowed });
    this._app._makesNodes = true;
  }

  /** Look again at what stands at a path, or at everything here. @param {string} [path] */
  refresh(path) {
    const app = this._app;
    if (path === undefined) {
      const below = this._prefix ? `/${this._prefix}` : "";
      for (const [key, known] of app._registrations) if (!below || `${key}/`.startsWith(`${below}/`)) app._due(known);
    } else {
      const key = format(split(this._full(path)));
      app._due(app._registrations.get(key) ?? fault(key, "nothing is registered there"));
    }
  }

  /** `refresh` by its plain name. @param {string} [path] */
  changed(path) {
    this.refresh(path);
  }

  /**
   * Change some properties or meta of one node, at the cost of its path. What its function says
   * next replaces it.
   * @param {string} path @param {{props?: object, meta?: object}} change
   */
  update(path, { props, meta }) {
    this._app._update(split(this._full(path)), props, meta);
  }
}

function piece(content, offset, length) {
  if (content == null) throw new ActionError("not_found", "there is no content here now");
  if (offset < 0 || length < 1) throw new ActionError("invalid_params", "/offset, /length: must not be negative or nothing");
  const end = offset + Math.min(length, PIECE);
  if (isText(content)) {
    const chars = /[\ud800-\udfff]/.test(content) ? [...content] : content;
    const part = chars.slice(offset, end);
    return { content: isText(part) ? part : part.join(""), encoding: "utf-8", offset, size: chars.length };
  }
  let binary = "";
  for (const byte of content.subarray(offset, end)) binary += String.fromCharCode(byte);
  return { content: btoa(binary), encoding: "base64", offset, size: content.length };
}

/** An app that shows its state and takes actions on it. */
export class App extends Scope {
  /**
   * @param {string} id @param {string} [name]
   * @param {{props?: object, markChanged?: boolean, coalesce?: number, invokeTimeout?: number,
   *   taskLinger?: number, maxDepth?: number, maxNodes?: number}} [options] times are milliseconds
   */
  constructor(id, name = id, options = {}) {
    super(null, "");
    if (!/^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/.test(id) || idProblem(id)) {
      fault(id, "an app's id must be 1 to 128 letters, digits, '.', '_' and '-'");
    }
    this._options = { coalesce: 50, invokeTimeout: 30_000, taskLinger: 30_000, maxDepth: -1, ...options };
    this.info = { id, name, slop_version: "0.1", capabilities: CAPABILITIES, epoch: random() + random() };
    this.version = 0;
    /** @type {Map<string, any>} */
    this._registrations = new Map();
    this._views = [];
    this._focused = "";
    this._patterns = new Branch();
    this._resolvers = new Branch();
    this._makesNodes = false;
    this._way = new Way([this._patterns]);
    this._rank = 0;
    this._closed = new Map();
    this._tasks = new Map();
    /** @type {Set<Line>} */
    this._lines = new Set();
    /** @type {Map<string, Group>} */
    this._groups = new Map();
    /** @type {Set<() => void>} */
    this._ends = new Set();
    this._root = new Entry(0);
    this._dueOnes = new Set();
    this._timer = undefined;
    /** @type {((call: Call) => any) | undefined} */
    this._authorize = undefined;
    this._source = this._result = this._shown = this._marked = undefined;
    this.register("/", { props: { label: name, ...options.props } });
    this._bare = this._root.node;
    this._past = [[0, this.tree()]];
  }

  /** The tree now: an object that is shared with earlier ones and must not be changed. @returns {Node} */
  tree() {
    for (const known of this._dueOnes) this._evaluate(known);
    this._dueOnes.clear();
    const composed = this._root.compose(this.info.id, undefined);
    if (composed !== this._source) {
      const closed = new Set(this._closed.values());
      this._result = this._way.expose(composed, closed, this._source, this._result);
      this._source = composed;
    }
    if (!this._options.markChanged) return this._result;
    if (this._result !== this._shown) {
      this._marked = this._shown ? marked(this._shown, this._result) : this._result;
      this._shown = this._result;
    }
    return this._marked;
  }

  /** Let a function decide on every invoke; false is `unauthorized`. @param {(call: Call) => any} hook */
  authorize(hook) {
    this._authorize = hook;
  }

  /** Open a view; the one that was open becomes a stub. @param {string} path */
  focus(path) {
    const key = split(path).join("/");
    if (!this._views.includes(key)) fault(path, `is not a view; views: ${this._views.join(", ")}`);
    this._focused = key;
    this.refresh();
  }

  /** Tell everybody that something happened which is not state. @param {string} name @param {Json} [data] */
  emit(name, data) {
    const event = JSON.stringify({ type: "event", name, data: data === undefined ? data : clean(data, name) });
    for (const line of this._lines) if (line.hasRoom()) line.send(event);
  }

  /**
   * Work that is shown while it runs, under `/tasks`. In a handler use the call's own `task`, which
   * also answers the caller.
   * @param {string} action @param {Work} work @param {object} [params]
   */
  task(action, work, params = {}) {
    return new Running(this, action, params).start(work);
  }

  /** Tell subscribers what changed, now. */
  flush() {
    clearTimeout(this._timer);
    this._timer = undefined;
    const tree = this.tree();
    if (tree === this._past.at(-1)?.[1]) return;
    this._past.push([++this.version, tree]);
    if (this._past.length > KEPT_VERSIONS) this._past.shift();
    for (const group of this._groups.values()) group.advance(tree);
  }

  /** End every transport and connection. */
  close() {
    for (const end of this._ends) end();
    for (const line of this._lines) line.close();
    for (const task of this._tasks.values()) task.abort();
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
   * @param {{token?: string, WebSocket?: any, wait?: number, longest?: number, onState?: (isOpen: boolean) => void}} [options]
   * @returns {() => void} ends it
   */
  dial(url = HUB, { token, WebSocket: Socket = globalThis.WebSocket, wait = 500, longest = 30_000, onState = () => {} } = {}) {
    const shown = token && btoa(token).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
    const protocols = shown ? ["slop", `slop.bearer.${shown}`] : ["slop"];
    let [socket, timer, isEnded, tries] = [/** @type {any} */ (null), /** @type {any} */ (null), false, 0];
    const open = () => {
      let line;
      const own = (socket = new Socket(url, protocols));
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
   * `postMessage({slop: true, message}, "*")`. Each `channel` that an envelope names is a connection.
   * @param {{window?: any}} [options]
   * @returns {() => void} ends it
   */
  post({ window: page = globalThis } = {}) {
    const lines = new Map();
    const hear = ({ source, origin, data }) => {
      // Whatever comes from elsewhere, or is our own, is nothing that a consumer says here.
      if (source !== page || origin !== page.origin || data?.slop !== true) return;
      const { message, channel } = data;
      if (!CONSUMER_TYPES.includes(message?.type) || !(channel === undefined || isText(channel))) return;
      let line = lines.get(channel);
      if (message.type === "disconnect") {
        lines.delete(channel);
        line?.close();
      } else if (message.type === "connect") {
        if (!line) {
          if (lines.size >= MOST) return;
          line = new Line(this, (text) => page.postMessage({ slop: true, channel, message: JSON.parse(text) }, "*"));
          lines.set(channel, line);
        }
        line.greet();
      } else {
        line?.receive(message);
      }
    };
    const { document } = page;
    page.addEventListener("message", hear);
    let meta;
    if (document && !document.querySelector('meta[name="slop"]')) {
      meta = Object.assign(document.createElement("meta"), { name: "slop", content: "postmessage" });
      document.head.append(meta);
    }
    return this._ending(() => {
      page.removeEventListener("message", hear);
      meta?.remove();
      for (const line of lines.values()) line.close();
    });
  }

  _ending(end) {
    const once = () => this._ends.delete(once) && end();
    this._ends.add(once);
    return once;
  }

  _built(ids, given, known, found) {
    if (ids.length) return build(given, format(ids.slice(0, -1)), ids.at(-1), "group", known, found, 1);
    const props = given.props ?? given.properties ?? {};
    const named = "label" in props || "title" in props ? given : { ...given, props: { ...props, label: this.info.name }, properties: undefined };
    return build(named, null, this.info.id, "root", known, found, 1);
  }

  _register(ids, given) {
    const key = format(ids);
    const known = this._registrations.get(key);
    const own = Object.assign(given, { ids, key, rank: known?.rank ?? ++this._rank });
    known?.end?.();
    this._registrations.set(key, own);
    this._put(errorIds(ids), null);
    if (!own.isView) this._forgetView(ids);
    if (own.ask) this._due(own);
    else this._put(ids, own.node, own.rank);
    return () => this._registrations.get(key) === own && this._unregister(own);
  }

  _unregister(known) {
    this._registrations.delete(known.key);
    this._dueOnes.delete(known);
    known.end?.();
    this._put(known.ids, known.ids.length ? null : this._bare);
    this._put(errorIds(known.ids), null);
    this._forgetView(known.ids);
  }

  _forgetView(ids) {
    const key = ids.join("/");
    if (!this._views.includes(key)) return;
    this._views = this._views.filter((view) => view !== key);
    if (this._focused === key) this._focused = "";
    this.refresh();
  }

  _isOpen(key) {
    return `${this._focused || this._views[0]}/`.startsWith(`${key}/`);
  }

  _hides(ids) {
    return this._views.some((view) => !this._isOpen(view) && `${ids.join("/")}/`.startsWith(`${view}/`));
  }

  _due(known) {
    if (known.ask) this._dueOnes.add(known);
    this._notify();
  }

  _notify() {
    // Nobody is told where nobody listens: whoever comes gets the tree as it is then.
    if (this._timer === undefined && this._lines.size) {
      this._timer = setTimeout(() => this.flush(), this._options.coalesce);
    }
  }

  /** Ask a function; where it fails, its last good state stays and a node under /errors says so. */
  _evaluate(known) {
    if (this._hides(known.ids.slice(0, -1))) return;
    const isClosed = known.isClosed?.() ?? false;
    try {
      const given = known.ask();
      if (typeof given?.then === "function") fault(known.key, "a node function must not be async: it reads state");
      const found = new Map();
      const before = isClosed === known.wasClosed ? known.node : undefined;
      known.node = given == null ? null : this._built(known.ids, given, before ?? undefined, found);
      Object.assign(known, { actions: found, wasClosed: isClosed });
      this._put(errorIds(known.ids), null);
      this._put(known.ids, known.ids.length ? known.node : known.node ?? this._bare, known.rank, isClosed);
    } catch (error) {
      console.error(`${known.key} could not be refreshed and keeps its last good state`, error);
      const consequence = known.node ? "shows its last good state" : "is missing";
      const [errors, id] = errorIds(known.ids);
      const properties = { path: known.key, message: `${known.key} could not be refreshed and ${consequence}` };
      this._put([errors, id], { id, type: "status", properties, meta: { salience: 1, urgency: "high" } }, LAST);
    }
  }

  /** Put a node at a path of the composed tree, or take it away. */
  _put(ids, node, rank = 0, isClosed = false) {
    const way = [this._root];
    for (const id of ids) {
      let next = way.at(-1).below.get(id);
      if (!next) {
        if (!node) return;
        next = new Entry(rank);
        way.at(-1).below.set(id, next);
      }
      if (node) next.rank = Math.min(next.rank, rank);
      way.push(next);
    }
    const entry = way.at(-1);
    const key = format(ids);
    if (entry.node === node && entry.isClosed === isClosed) return;
    entry.node = node;
    entry.isClosed = isClosed;
    if (isClosed) this._closed.set(key, node);
    else this._closed.delete(key);
    for (const one of way) one.composed = null;
    for (let at = ids.length; at > 0 && !way[at].node && !way[at].below.size; at--) way[at - 1].below.delete(ids[at - 1]);
    this._notify();
  }

  _addAction(path, action) {
    this._patterns.grow(path, action.name, action);
    this._way = new Way([this._patterns]);
    this._source = undefined;
    this._notify();
  }

  _update(ids, props, meta) {
    for (let depth = ids.length; depth >= 0; depth--) {
      const known = this._registrations.get(format(ids.slice(0, depth)));
      if (!known) continue;
      this.tree();
      if (known.wasClosed || this._hides(known.ids.slice(0, -1))) return;
      if (!known.node) fault(known.key, "nothing is shown there now");
      const change = (name, node, more, rules) => {
        if (!more) return node;
        const found = { ...node[name], ...clean(more, format(ids)) };
        checkMembers(found, rules, format(ids), name);
        return { ...node, [name]: found };
      };
      known.node = changeAt(known.node, ids.slice(depth), (node) =>
        change("meta", change("properties", node, props, {}), meta, META),
      );
      this._put(known.ids, known.node, known.rank);
      return;
    }
  }

  _group(ids, view) {
    const key = JSON.stringify([ids, view]);
    let group = this._groups.get(key);
    if (!group) {
      group = new Group(this, key, ids, view);
      group.show(this.tree());
      if (!group.shown) return undefined;
      this._groups.set(key, group);
    }
    return group;
  }

  /** Go down a path and make what is missing on it; returns the tree, and the actions of that. */
  async _made(ids, tree) {
    let node = tree;
    const actions = new Map();
    for (let depth = 0; depth < ids.length; depth++) {
      const here = ids.slice(0, depth);
      const found = childOf(node, ids[depth]);
      const resolver = !found && !this._hides(here) && this._resolvers.find(here, "");
      if (resolver) {
        const most = Math.max(WINDOW, Math.min(totalOf(node), LOOK_UP));
        const filled = await this._filled(resolver, node, here, [0, most], actions);
        tree = changeAt(tree, here, () => filled);
        node = filled;
      }
      node = childOf(node, ids[depth]);
      if (!node) return undefined;
    }
    return { node, tree, actions };
  }

  /** The node with the children that its resolver makes. */
  async _filled({ resolve, isWindowed, names }, node, ids, [offset, count], actions) {
    const holes = holesOf(names, ids);
    const given = await resolve(isWindowed ? { ...holes, offset, count } : holes);
    const answer = isObject(given) ? given : { items: given };
    const parent = ids.length ? format(ids.slice(0, -1)) : null;
    const { children } = build({ items: answer.items }, parent, node.id, node.type, undefined, actions, 1);
    const { window: _, ...meta } = node.meta ?? {};
    if (isWindowed) {
      meta.total_children = answer.total ?? Math.max(totalOf(node), offset + children.length);
      meta.window = [answer.offset ?? offset, children.length];
    } else {
      meta.total_children = children.length;
    }
    let way = this._way;
    for (const id of ids) way = way?.into(id);
    const filled = { ...node, meta, children };
    return way ? way.expose(filled, new Set()) : filled;
  }

  /** The node that a query asks for, with what it needs; and the window that is left to cut. */
  async _answer(ids, view) {
    const found = await this._made(ids, this.tree());
    if (!found) return undefined;
    const { node } = found;
    const { window } = view;
    const resolver = !this._hides(ids) && this._resolvers.find(ids, "");
    const first = node.meta?.window?.[0] ?? 0;
    const last = window && Math.min(window[0] + window[1], totalOf(node));
    const lacks = !node.children || (!node.children.length && totalOf(node)) || (window && (window[0] < first || last > first + node.children.length));
    if (!resolver || view.depth === 0 || !lacks) return projector(view)(node);
    const filled = await this._filled(resolver, node, ids, window ?? [0, WINDOW], new Map());
    return projector(resolver.isWindowed ? { ...view, window: undefined } : view)(filled);
  }

  _actionAt(ids, name) {
    const path = format(ids);
    for (let depth = ids.length; depth >= 0; depth--) {
      const offered = this._registrations.get(format(ids.slice(0, depth)))?.actions?.get(path);
      const found = offered?.find((action) => action.name === name);
      if (found) return found;
    }
    const task = ids[0] === "tasks" && ids.length === 2 && name === "cancel" && this._tasks.get(ids[1]);
    return this._patterns.find(ids, name) ?? (task && makeAction("cancel", () => task.abort(), path, { refreshes: [] }));
  }

  /** From an invoke to its result, with every check in its order and the handler last. */
  async _invoke({ path, action: name, params }) {
    const ids = readPath(path);
    let node = nodeAt(this.tree(), ids);
    const isInTree = !!node;
    let own;
    if (!node && this._makesNodes) {
      const found = await this._made(ids, this.tree());
      node = found?.node;
      own = found?.actions.get(format(ids))?.find((action) => action.name === name);
    }
    if (!node) throw new ActionError("not_found", `${path}: there is no such node`);
    const offers = (one) => one?.affordances?.some((item) => item.action === name);
    if (!offers(node)) throw new ActionError("not_found", `${path} does not offer '${name}' now`);
    const action = own ?? this._actionAt(ids, name);
    if (!action) throw new ActionError("not_found", `nothing does '${name}' here`);
    const schema = action.affordance.params;
    const unknown = schema ? undefined : Object.keys(params)[0];
    const wrong = schema ? misfit(schema, params) : unknown !== undefined && `/${unknown}: there is no such parameter`;
    if (wrong) throw new ActionError("invalid_params", wrong);
    const holes = action.names ? holesOf(action.names, ids) : {};
    let accept;
    const accepted = new Promise((resolve) => {
      accept = resolve;
    });
    const call = { path, action: name, params, node, holes, task: (work) => this._accept(name, params, work, accept) };
    const given = { ...params, ...holes };
    if ((await this._authorize?.(call)) === false || (await action.authorize?.(given, call)) === false) {
      throw new ActionError("unauthorized", `not allowed to ${name} here`);
    }
    const run = async () => {
      if (isInTree) {
        this._lookAgain(ids);
        const still = nodeAt(this.tree(), ids);
        if (!offers(still)) throw new ActionError("conflict", `${path} does not allow '${name}' any more`);
      }
      const verdict = await action.guard?.(given, call);
      if (verdict != null && verdict !== true) {
        throw new ActionError("conflict", isText(verdict) ? verdict : `'${name}' is not possible now`);
      }
      try {
        return await action.handler(given, call);
      } finally {
        if (!action.refreshes) this.refresh();
        else for (const one of action.refreshes) this.refresh(one);
      }
    };
    const { invokeTimeout } = this._options;
    let timer;
    const late = new Promise((_, reject) => {
      timer = setTimeout(() => reject(new ActionError("internal", `took longer than ${invokeTimeout / 1000} s`)), invokeTimeout);
    });
    try {
      const work = run().then((data) => (data == null ? {} : { data: clean(data, name) }));
      return await Promise.race([accepted, work, late]);
    } finally {
      clearTimeout(timer);
    }
  }

  _lookAgain(ids) {
    for (let depth = ids.length; depth >= 0; depth--) {
      const known = this._registrations.get(format(ids.slice(0, depth)));
      if (known) return this._due(known);
    }
  }

  _accept(name, params, work, accept) {
    const task = new Running(this, name, params);
    accept({ status: "accepted", data: { taskId: task.id } });
    return task.start(work);
  }
}

const errorIds = (ids) => ["errors", legalId((ids.join("/") || "/").slice(0, 60))];

/** Work that outlasts its invoke, shown while it runs and some time after. */
class Running {
  constructor(app, action, params) {
    this.id = `task-${random()}`;
    this._app = app;
    this._controller = new AbortController();
    this.signal = this._controller.signal;
    // SLOP, async actions: a status node under /tasks.
    this._state = { action, status: "running", progress: undefined, message: undefined, started_at: new Date(), params };
    this.show();
  }

  /** Show how far it is (0 to 1) and what it does. */
  report = (progress, message) => {
    if (progress != null) this._state.progress = Math.round(Math.min(Math.max(progress, 0), 1) * 10_000) / 10_000;
    if (message != null) this._state.message = message;
    this.show();
  };

  abort() {
    this._controller.abort();
  }

  async start(work) {
    const state = this._state;
    try {
      await work(this);
      Object.assign(state, { status: "done", progress: 1 });
    } catch (error) {
      if (this.signal.aborted) {
        state.status = "cancelled";
      } else {
        const isOurs = error instanceof ActionError;
        if (!isOurs) console.error("a task failed", error);
        Object.assign(state, { status: "failed", message: isOurs ? error.message : "failed unexpectedly" });
      }
    }
    this.show();
    const timer = setTimeout(() => {
      this._app._tasks.delete(this.id);
      this._app._put(["tasks", this.id], null);
    }, this._app._options.taskLinger);
    /** @type {any} */ (timer).unref?.();
  }

  show() {
    const { status } = this._state;
    const found = new Map();
    const given = {
      type: "status",
      props: this._state,
      meta: status === "failed" ? { salience: 1, urgency: "high" } : { salience: 0.8 },
      actions: status === "running" ? { cancel: { handler: () => {}, description: "Stop this task" } } : {},
    };
    this._app._tasks.set(this.id, this);
    this._app._put(["tasks", this.id], build(given, "/tasks", this.id, "status", undefined, found, 1), LAST);
  }
}

// The protocol's machine

const CONSUMER_TYPES = ["connect", "disconnect", "subscribe", "unsubscribe", "query", "invoke"];

/** The subscriptions to one path through one view. */
class Group {
  constructor(app, key, ids, view) {
    Object.assign(this, { app, key, ids });
    this.view = view;
    const { maxDepth, maxNodes } = app._options;
    this.bound = projector({ depth: maxDepth, maxNodes });
    this.project = projector(view);
    const depths = [view.depth, maxDepth].filter((depth) => depth >= 0);
    const most = Math.min(view.maxNodes ?? Infinity, maxNodes ?? Infinity);
    this.applied = { depth: depths.length ? Math.min(...depths) : -1, max_nodes: most === Infinity ? null : most };
    /** @type {Set<any>} */
    this.subscriptions = new Set();
    this.source = this.shown = /** @type {Node | undefined} */ (undefined);
    this.text = "";
    this.most = 0;
  }

  show(tree) {
    this.source = nodeAt(tree, this.ids);
    this.text = "";
    this.shown = this.source && this.project(this.bound(this.source));
  }

  advance(tree) {
    const [before, source] = [this.shown, this.source];
    if (before && nodeAt(tree, this.ids) === source) return;
    this.show(tree);
    const bodies = [];
    for (const one of this.subscriptions) {
      if (!this.shown) {
        if (before) one.line.lose(one);
      } else if (!before) {
        one.line.snapshot(one);
      } else {
        const body = (bodies[+one.fields] ??= [this.ops(before, one.fields)])[0];
        if (body === "[]") return;
        if (!one.isStale) one.line.patch(one, body);
      }
    }
  }

  /** The operations from an earlier view to this one, or nothing if a snapshot is better. */
  ops(before, fields) {
    const ops = diff(before, this.shown, fields);
    if (ops.length > PATCH_OPS || needsSnapshot(before, ops, fields)) return undefined;
    const text = JSON.stringify(ops);
    this.most += text.length / NODE_CHARS;
    if (text.length > SNAPSHOT_CHARS || (this.most > SNAPSHOT_NODES && this.cut())) return undefined;
    return text;
  }

  /** Keep the view within what a mirror takes; true if that took a cut. */
  cut() {
    this.most = countNodes(this.shown);
    if (this.most <= SNAPSHOT_NODES) return false;
    this.project = projector({ ...this.view, maxNodes: SNAPSHOT_NODES });
    this.applied.max_nodes = SNAPSHOT_NODES;
    this.show(this.app.tree());
    this.most = countNodes(this.shown);
    return true;
  }

  encoded() {
    if (!this.text) {
      this.cut();
      this.text = encode(this.shown);
    }
    return this.text;
  }

  /** What is really applied, where it is less than was asked for. */
  get served() {
    const { depth, max_nodes: most } = this.applied;
    return depth === this.view.depth && most === (this.view.maxNodes ?? null) ? "" : `,"served":${JSON.stringify(this.applied)}`;
  }
}

function encode(tree) {
  const text = JSON.stringify(tree);
  if (text.length > SNAPSHOT_CHARS) throw new ActionError("bad_request", `this view has more than ${SNAPSHOT_CHARS} bytes: ask for less depth, fewer nodes or a window`);
  return text;
}

function readPath(path) {
  try {
    return split(path);
  } catch (error) {
    throw new ActionError("not_found", error.message);
  }
}

/** What each field of a message must be; with what stands for it where it is left out. */
const isId = (value) => isText(value) && value !== "" && value.length <= 256 && value.isWellFormed();
const or = (holds) => (value) => value == null || holds(value);
const isFilter = (value) => isObject(value) && or(isNames)(value.types) && or(isShare)(value.min_salience) && [undefined, true, false].includes(value.retain_ancestors);
const isPoint = (value) => isObject(value) && isText(value.epoch) && isCount(value.version) && isCount(value.seq);
const isPath = (value) => isText(value) && value.length <= 65_536;
const VIEW = {
  id: isId, path: (value) => value === undefined || isPath(value),
  depth: (value) => value === undefined || (Number.isSafeInteger(value) && value >= -1),
  max_nodes: or((value) => isCount(value) && value > 0), filter: or(isFilter),
};
const SHAPES = {
  subscribe: { ...VIEW, resume: or(isPoint), fields: (value) => value === undefined || BOOL[0](value) },
  unsubscribe: { id: isId },
  query: { ...VIEW, window: or(isWindow) },
  invoke: { id: isId, path: isPath, action: isText, params: or(isObject) },
};

function viewOf({ depth = -1, max_nodes, filter, window }) {
  const { types, min_salience, retain_ancestors } = filter ?? {};
  return {
    depth, maxNodes: max_nodes ?? undefined, types: types && [...new Set(types)].sort(),
    minSalience: min_salience ?? undefined, retain: retain_ancestors || undefined, window: window ?? undefined,
  };
}

/** One consumer's connection. */
class Line {
  constructor(app, send, buffered = () => 0) {
    Object.assign(this, { app, buffered });
    this._send = send;
    /** @type {Map<string, any>} */
    this.subscriptions = new Map();
    this.running = new Set();
    this.drain = undefined;
    this.isOpen = true;
    app._lines.add(this);
    app.flush();
  }

  /** Say who the app is; what was subscribed to before gives way to the same ids from now on. */
  greet() {
    for (const one of this.subscriptions.values()) one.isOld = true;
    this.say({ type: "hello", provider: this.app.info });
  }

  close() {
    this.isOpen = false;
    clearInterval(this.drain);
    for (const id of [...this.subscriptions.keys()]) this.end(id);
    this.app._lines.delete(this);
  }

  send(text) {
    if (!this.isOpen) return;
    try {
      this._send(text);
    } catch (error) {
      console.error("a message could not be sent", error);
      this.close();
    }
  }

  say(message) {
    this.send(JSON.stringify(message));
  }

  refuse(id, code, message) {
    this.say({ type: "error", id, error: { code, message } });
  }

  hasRoom() {
    return this.buffered() <= QUEUE_BYTES;
  }

  /** Take in one message: text, or an object where the transport carries those. */
  receive(data) {
    if (!this.isOpen) return;
    let message = data;
    if (isText(data)) {
      if (data.length > MESSAGE_CHARS) return this.refuse(undefined, "bad_request", `a message must not be longer than ${MESSAGE_CHARS} bytes`);
      try {
        message = JSON.parse(data);
      } catch (error) {
        return this.refuse(undefined, "bad_request", `not JSON: ${error.message}`);
      }
    }
    if (!isObject(message)) return this.refuse(undefined, "bad_request", "a message must be an object");
    const { type, id } = message;
    const known = isId(id) ? id : undefined;
    const shape = isText(type) && Object.hasOwn(SHAPES, type) ? SHAPES[type] : undefined;
    if (!shape) return this.refuse(known, "bad_request", `unknown message type ${JSON.stringify(type)?.slice(0, 80)}`);
    // SLOP, messages: what is malformed is refused, and the connection lives on.
    const wrong = Object.keys(shape).find((name) => !shape[name](message[name]));
    if (wrong) return this.refuse(known, "bad_request", `${type}: '${wrong}' is missing or not what it must be`);
    if (type === "subscribe") this.subscribe(message);
    else if (type === "unsubscribe") this.end(id);
    else if (type === "query") this.query(message);
    else this.invoke(message);
  }

  subscribe(message) {
    const { app } = this;
    const { id, resume } = message;
    const known = this.subscriptions.get(id);
    // SLOP, messages: a subscription's id is unique while it lives.
    if (known && !known.isOld) return this.refuse(id, "bad_request", `there is a subscription '${id}' already`);
    this.end(id);
    for (const [old, { isOld }] of this.subscriptions) if (isOld && this.subscriptions.size >= MOST) this.end(old);
    if (this.subscriptions.size >= MOST) return this.refuse(id, "bad_request", `a connection has at most ${MOST} subscriptions`);
    try {
      app.flush();
      const ids = readPath(message.path ?? "/");
      const view = viewOf(message);
      const group = app._group(ids, view);
      if (!group) return this.refuse(id, "not_found", `${message.path}: there is no such node`);
      const own = { id, line: this, group, fields: !!message.fields, seq: 0, version: 0, isStale: true, isOld: false };
      this.subscriptions.set(id, own);
      group.subscriptions.add(own);
      const past = resume?.epoch === app.info.epoch && resume.version <= app.version && app._past.findLast(([version]) => version <= resume.version);
      const source = past && nodeAt(past[1], ids);
      const ops = source && group.ops(projector(view)(group.bound(source)), own.fields);
      if (ops === undefined || !source) return this.snapshot(own);
      Object.assign(own, { isStale: false, seq: resume.seq, version: resume.version });
      this.patch(own, ops);
    } catch (error) {
      this.fail(id, error);
    }
  }

  end(id) {
    const own = this.subscriptions.get(id);
    if (!own) return;
    this.subscriptions.delete(id);
    own.group.subscriptions.delete(own);
    if (!own.group.subscriptions.size) this.app._groups.delete(own.group.key);
  }

  fail(id, error) {
    if (!(error instanceof ActionError)) console.error("a request failed", error);
    const isOurs = error instanceof ActionError;
    this.refuse(id, isOurs ? error.code : "internal", isOurs ? error.message : "the app failed to answer this");
  }

  snapshot(own) {
    const { id, group } = own;
    own.isStale = true;
    if (!this.hasRoom()) return this.wait();
    try {
      const tree = group.encoded();
      const { version } = this.app;
      this.send(`{"type":"snapshot","id":${JSON.stringify(id)},"version":${version},"seq":0${group.served},"tree":${tree}}`);
      Object.assign(own, { isStale: false, seq: 0, version });
    } catch (error) {
      this.end(id);
      this.fail(id, error);
    }
  }

  /** Send operations; where there are none, or the reader is slow, a snapshot as soon as it can be. */
  patch(own, ops) {
    if (ops === undefined || !this.hasRoom()) return this.snapshot(own);
    const { version } = this.app;
    this.send(`{"type":"patch","subscription":${JSON.stringify(own.id)},"version":${version},"seq":${++own.seq},"base":${own.version},"ops":${ops}}`);
    own.version = version;
  }

  lose(own) {
    own.isStale = true;
    this.refuse(own.id, "not_found", "the node subscribed to is gone");
  }

  /** Look now and then whether a slow reader has taken what was sent. */
  wait() {
    this.drain ??= setInterval(() => {
      if (!this.hasRoom()) return;
      clearInterval(this.drain);
      this.drain = undefined;
      for (const own of this.subscriptions.values()) if (own.isStale && own.group.shown) this.snapshot(own);
    }, 100);
  }

  async query({ id, path = "/", ...message }) {
    try {
      const found = await this.app._answer(readPath(path), viewOf(message));
      if (!found) return this.refuse(id, "not_found", `${path}: there is no such node`);
      this.app.flush();
      this.send(`{"type":"snapshot","id":${JSON.stringify(id)},"version":${this.app.version},"tree":${encode(found)}}`);
    } catch (error) {
      this.fail(id, error);
    }
  }

  async invoke({ id, path, action, params }) {
    if (this.running.has(id)) return this.refuse(id, "bad_request", `an invoke with the id '${id}' is still running`);
    if (this.running.size >= MOST) return this.say({ type: "result", id, status: "error", error: { code: "conflict", message: `${MOST} actions run already` } });
    this.running.add(id);
    let answer;
    try {
      answer = { status: "ok", ...(await this.app._invoke({ path, action, params: params ?? {} })) };
    } catch (error) {
      const isOurs = error instanceof ActionError;
      if (!isOurs) console.error(`${action} of ${path} failed`, error);
      const code = isOurs && CODES.includes(error.code) ? error.code : "internal";
      answer = { status: "error", error: { code, message: isOurs ? error.message : "the app failed to do this" } };
    }
    // SLOP, messages: the changes of an invoke are sent before its result.
    this.app.flush();
    this.running.delete(id);
    this.say({ type: "result", id, ...answer });
  }
}
