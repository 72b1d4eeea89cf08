// Everything beside the list of turns: the views of a turn, what stands above them, and dialogs.
import { useAnswer } from "app/api";
import { ChangesView } from "app/changes";
import { Conversation, UnderWay } from "app/conversation";
import { Dialog } from "app/dialog";
import { TurnHeader } from "app/header";
import { html } from "app/html";
import { LedgerView } from "app/ledger";
import { Empty, Pending } from "app/notice";
import { AgentWhatIf } from "app/otherwise";
import { Palette } from "app/palette";
import { Picture } from "app/picture";
import { PromptView } from "app/prompt";
import { address, route, TITLES } from "app/route";
import { SearchDialog } from "app/search";
import { TraceView } from "app/trace";
import { StateView } from "app/tree";
import { UnseenView } from "app/unseen";
import { WhatIf } from "app/whatif";

const ASKING = ["ledger", "state", "unseen", "conversation"]; // views that ask for what they show

export const Requests = ({ turn }) =>
  turn.requests > 1 &&
  html`<nav aria-label="Requests of the turn"><ul class="tabs small">
  ${Array.from({ length: turn.requests }, (_, at) => at + 1).map(
    (n) => html`<li key=${n}><a href=${address({ request: n })}
    aria-current=${route.value.request === n ? "page" : undefined}>request ${n}</a></li>`,
  )}
</ul></nav>`;

export const View = ({ turn, requests, about, agent, fresh }) => {
  const { session, request, view } = route.value;
  const path = turn?.requests ? `/api/sessions/${session}/turns/${turn.turn}/${request}` : null;
  const own = ASKING.includes(view);
  const answer = useAnswer(own ? null : path, fresh);
  const { data } = answer;
  const key = `${session}.${turn?.turn}.${request}`;
  if (view === "ledger") return html`<${LedgerView} agent=${agent} fresh=${fresh} />`;
  if (!turn)
    return html`<${Empty} title="No turn is chosen">Choose one in the list; a session without any
      ${" "}is begun with <code>sightline chat</code>.<//>`;
  if (view === "conversation")
    return html`<${Conversation} key=${key} session=${session} turn=${turn} fresh=${fresh} />`;
  if (!path)
    return html`<${Empty} title="No request of this turn was recorded">The wire journal has none of
      ${" "}it, or has forgotten it. <a href=${address({ view: "conversation", options: {} })}>What
      ${" "}was said</a> is in the ledger.<//>`;
  if (view === "state")
    return html`<${StateView} key=${key} allowInvoke=${about.allow_invoke} fresh=${fresh} />`;
  if (view === "unseen") return html`<${UnseenView} key=${key} fresh=${fresh} />`;
  if (!data) return html`<${Pending} answer=${answer} what=${`request ${turn.turn}.${request}`} />`;
  if (data.note && view !== "trace")
    return html`<section aria-label=${TITLES[view]}><${Empty} title=${data.note} /></section>`;
  if (view === "prompt")
    return html`<${PromptView} key=${key} data=${data} requests=${requests} />`;
  if (view === "changes") return html`<${ChangesView} key=${key} data=${data} />`;
  if (view === "trace")
    return html`<${TraceView} key=${key} trace=${data.trace} duration=${turn.duration_ms}
      note=${data.note}>
      ${
        turn.status === "running" &&
        html`<${UnderWay} session=${session} turn=${turn} fresh=${fresh} />`
      }<//>`;
  if (view === "whatif" && agent) return html`<${AgentWhatIf} key=${key} />`;
  if (view === "whatif") return html`<${WhatIf} key=${key} data=${data} />`;
  return html`<${Picture} key=${key} data=${data} />`;
};

const Help = ({
  actions,
  paletteKeys,
  onClose,
}) => html`<${Dialog} label="Keyboard" onClose=${onClose}>
  <h2>Keyboard</h2>
  <dl>
    <dt><kbd>${paletteKeys}</kbd></dt><dd>anything, by a few letters</dd>
    ${actions
      .filter(({ keys }) => keys)
      .map(({ keys, name }) => html`<dt key=${keys}><kbd>${keys}</kbd></dt><dd>${name}</dd>`)}
  </dl>
  <button type="button" autofocus onClick=${onClose}>Close</button>
<//>`;

/** The dialogs that are open, as two signals say; `commands` gives all that can be done. */
export const Overlays = ({ help, palette, paletteKeys, actions, commands }) => html`<div>
  ${
    help.value &&
    html`<${Help} actions=${actions} paletteKeys=${paletteKeys}
      onClose=${() => (help.value = false)} />`
  }
  ${route.value.find !== null && html`<${SearchDialog} />`}
  ${
    palette.value &&
    html`<${Palette} commands=${commands()} onClose=${() => (palette.value = false)} />`
  }
</div>`;

export { TurnHeader };
