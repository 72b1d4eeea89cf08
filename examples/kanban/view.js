/** Draws the board, and turns what a person does with it into calls. Knows nothing of agents. */

/** @param {any} board @param {any} on  what can be done: add, move, rename, remove, choose */
export function show(board, on) {
  const drawn = () => draw(board, on);
  if (document.startViewTransition) document.startViewTransition(drawn).ready.catch(() => {});
  else drawn();
}

/** Say whether an agent is connected. */
export function seen(isSeen) {
  byId("agent").textContent = isSeen ? "An agent sees this board" : "No agent sees this board";
  byId("agent").classList.toggle("seen", isSeen);
}

/** Mark the card that a person has chosen. */
export function point(chosen, text) {
  for (const tile of document.querySelectorAll(".lane li"))
    tile.classList.toggle("chosen", tile.id === chosen);
  byId("seen").textContent = text;
}

function draw({ columns, cards, chosen, changed, log, text }, on) {
  const focused = document.activeElement?.id;
  const lanes = Object.entries(columns).map(([column, label]) => {
    const tiles = cards
      .filter((card) => card.column === column)
      .map((card, at) => tile(card, at, { columns, on, chosen, changed }));
    return lane(column, label, tiles, on);
  });
  byId("board").replaceChildren(...lanes);
  byId("log").replaceChildren(
    ...log.map(({ who, what }) =>
      element("li", {}, element("b", { className: who }, who), ` ${what}`),
    ),
  );
  byId("seen").textContent = text;
  if (focused) byId(focused)?.focus();
}

function lane(column, label, tiles, on) {
  const field = element("input", {
    id: `add-${column}`,
    placeholder: "Add a card",
    maxLength: 200,
  });
  field.ariaLabel = `Add a card to ${label}`;
  const onsubmit = (event) => {
    event.preventDefault();
    if (field.value.trim()) on.add(column, field.value.trim(), "you");
  };
  const ondrop = (event) => {
    event.preventDefault();
    const id = event.dataTransfer.getData("text/plain");
    const above = tiles.filter((tile) => tile.id !== id && middle(tile) < event.clientY);
    on.move(id, column, above.length, "you");
  };
  const fields = { className: `lane ${column}`, ariaLabel: label, ondrop, ondragover: prevent };
  const heading = element("h2", {}, label, element("span", {}, String(tiles.length)));
  return element(
    "section",
    fields,
    heading,
    element("ul", {}, ...tiles),
    element("form", { onsubmit }, field),
  );
}

function tile(card, at, { columns, on, chosen, changed }) {
  const order = Object.keys(columns);
  const words = element("span", { className: "words" }, card.title);
  const made = element("li", { id: card.id, tabIndex: 0, draggable: true }, words);
  made.style.viewTransitionName = card.id;
  made.classList.toggle("chosen", card.id === chosen);
  made.classList.toggle("changed", card.id === changed);
  made.onfocus = () => on.choose(card.id);
  made.ondragstart = (event) => event.dataTransfer.setData("text/plain", card.id);
  made.onkeydown = (event) => {
    if (event.target !== made) return;
    const lane = order.indexOf(card.column) + { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    const place = at + { ArrowUp: -1, ArrowDown: 1 }[event.key];
    if (lane in order) on.move(card.id, order[lane], undefined, "you");
    else if (place >= 0) on.move(card.id, card.column, place, "you");
    else if (event.key === "Delete") on.remove(card.id, "you");
    else if (event.key === "Enter") edit(words, (title) => on.rename(card.id, title, "you"));
    else return;
    event.preventDefault();
  };
  made.ondblclick = () => edit(words, (title) => on.rename(card.id, title, "you"));
  return made;
}

function edit(words, done) {
  const before = words.textContent;
  words.contentEditable = "plaintext-only";
  words.onblur = () => {
    words.contentEditable = "false";
    const title = words.textContent.trim().slice(0, 200);
    if (title && title !== before) done(title);
  };
  words.onkeydown = (event) => {
    if (event.key === "Escape") words.textContent = before;
    if (event.key === "Enter" || event.key === "Escape") words.blur();
  };
  words.focus();
}

function element(tag, fields, ...parts) {
  const made = Object.assign(document.createElement(tag), fields);
  made.append(...parts);
  return made;
}

function middle(tile) {
  const { top, height } = tile.getBoundingClientRect();
  return top + height / 2;
}

function prevent(event) {
  event.preventDefault();
}

function byId(id) {
  return document.getElementById(id);
}
