// Everything that can be shown or done, found by a few letters and chosen by the keyboard alone.
import { useSignal } from "@preact/signals";
import { isExport, useAnswer } from "app/api";
import { filterFor, matching } from "app/commands";
import { Dialog } from "app/dialog";
import { count, html } from "app/html";
import { go, route } from "app/route";
import { useLayoutEffect, useRef } from "preact/hooks";

const PAUSE_MS = 150; // after the last key, before turns are asked for
const MOST = 40; // that are listed

const toTurn = (row) => ({
  kind: "turn",
  name: `${row.turn} · ${row.text}`,
  run: () => go({ turn: row.turn, request: 1, options: {} }),
});

// The turns of this session that fit, newest first; an export has them all in itself.
const useTurnsLike = (text) => {
  const { session } = route.value;
  const filter = isExport ? "" : filterFor(text);
  const query = filter ? `?filter=${encodeURIComponent(filter)}` : "";
  const { data, error } = useAnswer(session ? `/api/sessions/${session}/turns${query}` : null);
  const turns = (data?.rows ?? []).toReversed().map(toTurn);
  return { turns: isExport ? matching(turns, text) : turns, error, isComing: !data && !error };
};

const Option = ({ command, id, chosen, onRun }) => html`<li id=${id} role="option"
  aria-selected=${chosen} onClick=${onRun}>
  <span class="line" dir="auto">${command.name}</span>
  ${command.keys && html`<kbd>${command.keys}</kbd>`}
  <span class="tag">${command.kind}</span></li>`;

export const Palette = ({ commands, onClose }) => {
  const text = useSignal("");
  const wanted = useSignal("");
  const at = useSignal(0);
  const timer = useRef(0);
  const list = useRef(/** @type {HTMLElement | null} */ (null));
  const { turns, error, isComing } = useTurnsLike(wanted.value);
  const fitting = matching(commands, text.value);
  const isNumber = /^\s*\d+\s*$/.test(text.value);
  const found = (isNumber ? [...turns, ...fitting] : [...fitting, ...turns]).slice(0, MOST);
  const chosen = Math.min(at.value, found.length - 1);
  useLayoutEffect(() => {
    list.current?.children[chosen]?.scrollIntoView({ block: "nearest" });
  }, [chosen]);
  const run = (command) => {
    onClose();
    command?.run();
  };
  const type = (event) => {
    text.value = event.target.value;
    at.value = 0;
    clearTimeout(timer.current);
    timer.current = setTimeout(() => (wanted.value = text.value), PAUSE_MS);
  };
  const press = (event) => {
    const last = found.length - 1;
    const moves = {
      ArrowDown: () => (at.value = chosen < last ? chosen + 1 : 0),
      ArrowUp: () => (at.value = chosen > 0 ? chosen - 1 : last),
      Enter: () => found[chosen] && run(found[chosen]),
    };
    if (!moves[event.key] || event.isComposing) return;
    moves[event.key]();
    event.preventDefault();
  };
  // WAI-ARIA Authoring Practices, combobox: the focus stays in the box, the choice is named to it.
  return html`<${Dialog} label="Command palette" kind="palette" onClose=${onClose}>
    <input type="text" role="combobox" aria-label="Go to or do" aria-autocomplete="list"
      aria-expanded=${found.length > 0} aria-controls="palette-found" autocomplete="off"
      aria-activedescendant=${chosen >= 0 ? `palette-${chosen}` : undefined} spellcheck=${false}
      placeholder="a view, an action, a session, a turn by number or words"
      value=${text.value} onInput=${type} onKeyDown=${press} autofocus />
    <ul id="palette-found" role="listbox" aria-label="Found" ref=${list}>
      ${found.map(
        (command, index) => html`<${Option} key=${`${command.kind}${command.name}${index}`}
        command=${command} id=${`palette-${index}`} chosen=${index === chosen}
        onRun=${() => run(command)} />`,
      )}
    </ul>
    <p class="quiet" role="status">
      ${error ?? (isComing ? "looking…" : `${count(found.length)} found`)}</p>
  <//>`;
};
