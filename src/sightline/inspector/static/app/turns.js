// The turns of a session, newest last, whatever their number.
import { count, dollars, html, seconds, share } from "app/html";
import { VirtualList } from "app/list";

const ROW = 62;

// What a turn cost is left out where nobody knows: the row is narrow.
const figures = (turn) => [
  `${count(turn.prompt_tokens)} tokens`,
  `${share(turn.cached_tokens, turn.prompt_tokens)} reused`,
  seconds(turn.duration_ms),
  ...(turn.cost_usd === null ? [] : [dollars(turn.cost_usd)]),
  ...(turn.requests > 1 ? [`${turn.requests} requests`] : []),
];

const Turn = (turn) => html`<span class="turn">
  <span class="line"><b>${turn.turn}</b>
    ${" "}<span class=${`tag ${turn.status}`}>${turn.status}</span> ${turn.text}</span>
  <span class="quiet line">${figures(turn).join(" · ")}</span></span>`;

export const TurnList = ({ turns, selected, onSelect }) => html`<${VirtualList}
  id="turns" label="Turns" count=${turns.length} height=${ROW}
  selected=${selected} onSelect=${onSelect}
  row=${(index) => Turn(turns[index])} />`;
