/** A kanban board whose cards a person and an agent move. The cards are the state, for both. */
import { ActionError, App } from "./sightline.js";
import { formatTree } from "./text.js";
import { point, seen, show } from "./view.js";

const COLUMNS = { todo: "To do", doing: "Doing", done: "Done" };
const FIRST = [
  { id: "c1", title: "Choose a name for the bakery", column: "todo" },
  { id: "c2", title: "Taste three kinds of sourdough", column: "todo" },
  { id: "c3", title: "Ask what the oven costs", column: "doing" },
  { id: "c4", title: "Find a shop with a window", column: "done" },
];

let cards = JSON.parse(localStorage.getItem("cards") ?? "null") ?? FIRST;
let chosen = "";
let log = [];

const app = new App("kanban", "Kanban board", {
  description: "a board that a person works on, too",
});

for (const [column, label] of Object.entries(COLUMNS)) {
  app.node(column, () => {
    const items = cards
      .filter((card) => card.column === column)
      .map(({ id, title }) => ({
        id,
        props: { title },
        meta: id === chosen ? { focus: true } : {},
      }));
    return {
      type: "collection",
      props: { label },
      summary: `${items.length} ${items.length === 1 ? "card" : "cards"}`,
      items,
    };
  });
}

const title = { type: "string", minLength: 1, maxLength: 200 };
const to = { type: "string", enum: Object.keys(COLUMNS) };
const position = { type: "integer", minimum: 0, description: "0 is the top; the end if left out" };

app.action("{column}", "add", (call) => add(call.column, call.title, "agent"), {
  params: { title },
});
app.action("{column}/{id}", "move", (call) => move(call.id, call.to, call.position, "agent"), {
  params: { type: "object", properties: { to, position }, required: ["to"] },
});
app.action("{column}/{id}", "rename", (call) => rename(call.id, call.title, "agent"), {
  params: { title },
});
app.action("{column}/{id}", "remove", (call) => remove(call.id, "agent"), { dangerous: true });

function add(column, title, who) {
  const id = `c${Math.max(0, ...cards.map((card) => Number(card.id.slice(1)))) + 1}`;
  change([...cards, { id, title, column }], id, who, `added “${title}”`);
  return id;
}

function move(id, to, position, who) {
  const card = { ...find(id), column: to };
  const rest = cards.filter((other) => other.id !== id);
  const next = rest.filter((other) => other.column === to)[position ?? rest.length];
  const at = next ? rest.indexOf(next) : rest.length;
  change(rest.toSpliced(at, 0, card), id, who, `moved “${card.title}” to ${COLUMNS[to]}`);
}

function rename(id, title, who) {
  const before = find(id).title;
  const renamed = cards.map((card) => (card.id === id ? { ...card, title } : card));
  change(renamed, id, who, `renamed “${before}” to “${title}”`);
}

function remove(id, who) {
  const { title } = find(id);
  change(
    cards.filter((card) => card.id !== id),
    id,
    who,
    `removed “${title}”`,
  );
}

function find(id) {
  const card = cards.find((card) => card.id === id);
  if (card === undefined) throw new ActionError("conflict", "the card is gone");
  return card;
}

/** Take a new board: keep it, tell the agents, show it. */
function change(next, id, who, what) {
  cards = next;
  localStorage.setItem("cards", JSON.stringify(cards));
  log = [{ who, what }, ...log].slice(0, 6);
  app.refresh();
  draw(who === "agent" ? id : "");
}

/** The card that a person points at is the one that "this card" means. */
function choose(id) {
  if (id === chosen) return;
  chosen = id;
  app.refresh();
  point(id, formatTree(app.tree()));
}

function draw(changed) {
  const text = formatTree(app.tree());
  show(
    { columns: COLUMNS, cards, chosen, changed, log, text },
    { add, move, rename, remove, choose },
  );
}

draw("");
if (new URLSearchParams(location.search).has("extension")) {
  app.post(); // to the browser's extension, which asks the person
} else {
  app.dial(undefined, { onState: seen }); // to an agent on this machine
}
