// The turns of a session, newest last, whatever their number.
import { html, count, dollars, seconds, share } from "app/html";
import { VirtualList } from "app/list";

const ROW = 62;

const Turn = (turn) => html`<span class="turn">
  <span class="line"><b>${turn.turn}</b> <span class=${`tag ${turn.status}`}>${turn.status}</span> ${turn.text}</span>
  <span class="quiet line">${count(turn.prompt_tokens)} tokens · ${share(turn.cached_tokens, turn.prompt_tokens)} reused
    · ${dollars(turn.cost_usd)} · ${seconds(turn.duration_ms)}${turn.requests > 1 ? ` · ${turn.requests} requests` : ""}</span></span>`;

export const TurnList = ({ turns, selected, onSelect }) => html`<${VirtualList}
  id="turns" label="Turns" count=${turns.length} height=${ROW} selected=${selected} onSelect=${onSelect}
  row=${(index) => Turn(turns[index])} />`;
