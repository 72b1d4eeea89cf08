// The page: sessions above, turns on the left, one of the views on the right.

import { signal, useSignal } from "@preact/signals";
import { isExport, listen, news, useAnswer } from "app/api";
import { ChangesView } from "app/changes";
import { Conversation } from "app/conversation";
import { AgentSession } from "app/exchanges";
import { TurnHeader } from "app/header";
import { html } from "app/html";
import { LedgerView } from "app/ledger";
import { Picture } from "app/picture";
import { PromptView } from "app/prompt";
import { address, go, route, VIEWS } from "app/route";
import { SearchDialog } from "app/search";
import { TraceView } from "app/trace";
import { StateView } from "app/tree";
import { Filter, Overview, TurnList, useTurns } from "app/turns";
import { UnseenView } from "app/unseen";
import { WhatIf } from "app/whatif";
import { render } from "preact";
import { useEffect, useLayoutEffect } from "preact/hooks";

const TITLES = {
  picture: "Picture",
  conversation: "Conversation",
  changes: "Changes",
  prompt: "Prompt",
  state: "State",
  unseen: "Not seen",
  trace: "Trace",
  whatif: "What if",
  ledger: "Ledger",
};
const ASKING = ["ledger", "state", "unseen", "conversation"]; // views that ask for what they show
const KEYS = [
  ["j / k", "next, previous turn"],
  ["g / G", "first, last turn"],
  [`1 – ${VIEWS.length}`, "the views"],
  ["[ / ]", "previous, next request of the turn"],
  ["/", "search everything said"],
  ["f", "follow the newest request"],
  ["?", "this help"],
];

const follow = signal(false);

const Help = ({ open }) => html`<dialog open aria-label="Keyboard" class="help">
  <h2>Keyboard</h2>
  <dl>${KEYS.map(([key, what]) => html`<dt key=${key}><kbd>${key}</kbd></dt><dd>${what}</dd>`)}</dl>
  <button type="button" autofocus onClick=${() => (open.value = false)}>Close</button>
</dialog>`;

const Tabs = () => html`<nav aria-label="Views"><ul class="tabs">
  ${VIEWS.map(
    (view) => html`<li key=${view}><a href=${address({ view, options: {} })}
    aria-current=${route.value.view === view ? "page" : undefined}>${TITLES[view]}</a></li>`,
  )}
</ul></nav>`;

const Requests = ({ turn }) =>
  turn.requests > 1 &&
  html`<nav aria-label="Requests of the turn"><ul class="tabs small">
  ${Array.from({ length: turn.requests }, (_, at) => at + 1).map(
    (n) => html`<li key=${n}><a href=${address({ request: n })}
    aria-current=${route.value.request === n ? "page" : undefined}>request ${n}</a></li>`,
  )}
</ul></nav>`;

const View = ({ turn, requests, about, fresh }) => {
  const { session, request, view } = route.value;
  const path = turn?.requests ? `/api/sessions/${session}/turns/${turn.turn}/${request}` : null;
  const own = ASKING.includes(view);
  const { data, error } = useAnswer(own ? null : path, fresh);
  const key = `${session}.${turn?.turn}.${request}`;
  if (view === "ledger") return html`<${LedgerView} fresh=${fresh} />`;
  if (!turn)
    return html`<p class="quiet">No turn yet. Start one with <code>sightline chat</code>;
      ${" "}it appears here.</p>`;
  if (view === "conversation")
    return html`<${Conversation} key=${key} session=${session} turn=${turn} fresh=${fresh} />`;
  if (!path) return html`<p class="quiet">No request of this turn was recorded.</p>`;
  if (view === "state")
    return html`<${StateView} key=${key} allowInvoke=${about.allow_invoke} fresh=${fresh} />`;
  if (view === "unseen") return html`<${UnseenView} key=${key} fresh=${fresh} />`;
  if (error) return html`<p class="error" role="alert">${error}</p>`;
  if (!data) return html`<p class="quiet">Loading…</p>`;
  if (view === "prompt")
    return html`<${PromptView} key=${key} data=${data} requests=${requests} />`;
  if (view === "changes") return html`<${ChangesView} key=${key} data=${data} />`;
  if (view === "trace") return html`<${TraceView} key=${key} trace=${data.trace} />`;
  if (view === "whatif") return html`<${WhatIf} key=${key} data=${data} choices=${about} />`;
  return html`<${Picture} key=${key} data=${data} />`;
};

// Whoever sees a turn chosen may press the next key: it must not meet the keys of the page before.
const useKeys = (turns, selected, current, choose, help) =>
  useLayoutEffect(() => {
    const press = (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      if (/^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName)) return;
      const moves = {
        j: () => choose(Math.min(selected + 1, turns.length - 1)),
        k: () => choose(Math.max(selected - 1, 0)),
        g: () => choose(0),
        G: () => choose(turns.length - 1),
        f: () => (follow.value = !follow.value),
        "/": () => go({ find: "" }, { replace: true }),
        "?": () => (help.value = !help.value),
        Escape: () => (help.value = false),
        "[": () => current && go({ request: Math.max(1, route.value.request - 1) }),
        "]": () => current && go({ request: Math.min(current.requests, route.value.request + 1) }),
      };
      if (VIEWS[Number(event.key) - 1]) go({ view: VIEWS[Number(event.key) - 1], options: {} });
      else if (moves[event.key]) moves[event.key]();
      else return;
      event.preventDefault();
    };
    addEventListener("keydown", press);
    return () => removeEventListener("keydown", press);
  }, [turns, selected, current]);

const titleOf = (turn, title) => [turn && `${turn.turn} · ${turn.text}`, title, "Sightline"];

const Session = ({ about }) => {
  const { session, turn, filter, find, view } = route.value;
  const fresh = news.value.turns;
  const list = useTurns(session, fresh);
  const { turns, data } = list;
  const help = useSignal(false);
  const selected = turns.indexOf(turn);
  const choose = (index) =>
    index >= 0 && turns[index] && go({ turn: turns[index], request: 1, options: {} });
  const isLost = turn === null || (selected < 0 && !filter);
  useEffect(() => {
    const last = turns[turns.length - 1];
    if (turns.length && (isLost || follow.value) && last !== turn)
      go({ turn: last, request: 1 }, { replace: true });
  }, [turns, follow.value, isLost]);
  useEffect(() => {
    if (data && turn !== null) list.want([turn]);
  }, [data, turn]);
  const current = list.rows.get(turn);
  useEffect(() => {
    if (follow.value && current?.requests > route.value.request)
      go({ request: current.requests }, { replace: true });
  }, [follow.value, current]);
  useKeys(turns, selected, current, choose, help);
  const title = about.sessions.find((item) => item.id === session)?.title;
  useEffect(() => {
    document.title = titleOf(current, title).filter(Boolean).join(" · ");
  }, [current, title]);
  // A turn that has ended stays as it is; the ledger does not.
  const changes = view === "ledger" || current?.status === "running";
  const isComing = !current && data && turns.length > 0 && view !== "ledger";
  return html`<main>
    <aside aria-label="Turns of the session">
      <${Overview} session=${session} fresh=${fresh} />
      <${Filter} list=${list} />
      <${TurnList} list=${list} selected=${selected} onSelect=${choose} />
    </aside>
    <div class="view">
      ${
        current &&
        view !== "ledger" &&
        html`<${TurnHeader} turn=${current} fresh=${changes ? fresh : 0} />`
      }
      <${Tabs} />
      ${current && view !== "ledger" && html`<${Requests} turn=${current} />`}
      ${
        isComing
          ? html`<p class="quiet">Loading…</p>`
          : html`<${View} turn=${current} requests=${list.requests} about=${about}
            fresh=${changes ? fresh : ""} />`
      }
    </div>
    ${help.value && html`<${Help} open=${help} />`}
    ${find !== null && html`<${SearchDialog} />`}
  </main>`;
};

const called = (item) => (item.agent ? `${item.agent}: ${item.title}` : item.title);

const openSession = (session) => go({ session, turn: null, request: 1, filter: "", options: {} });

const Page = () => {
  const { data, error } = useAnswer("/api/sessions", news.value.sessions);
  const { session } = route.value;
  const agent = data?.sessions.find((item) => item.id === session)?.agent;
  useEffect(() => listen(session), [session]);
  useEffect(() => {
    if (data && route.value.session === null && data.sessions.length)
      go({ session: data.sessions[0].id }, { replace: true });
  }, [data]);
  return html`<div class="page">
    <header>
      <h1>Sightline</h1>
      ${
        data &&
        html`<label>session <select value=${session}
        onChange=${(event) => openSession(Number(event.target.value))}>
        ${data.sessions.map(
          (item) => html`<option key=${item.id} value=${item.id}>
          ${item.id} · ${called(item)}</option>`,
        )}
      </select></label>`
      }
      ${
        !isExport &&
        html`<label><input type="checkbox" checked=${follow.value}
        onChange=${() => (follow.value = !follow.value)} /> follow</label>`
      }
      <span class="quiet" role="status">${news.value.state}</span>
      ${
        !isExport &&
        session !== null &&
        html`<a href=${`./export/${session}.html`}
        download>Export</a>`
      }
      <span class="quiet right">? for keys</span>
    </header>
    ${error && html`<p class="error" role="alert">${error}</p>`}
    ${data?.sessions.length === 0 && html`<p class="quiet">This ledger has no session yet.</p>`}
    ${
      data &&
      session !== null &&
      (agent
        ? html`<${AgentSession} key=${session} session=${session} agent=${agent}
          fresh=${news.value.turns} />`
        : html`<${Session} key=${session} about=${data} />`)
    }
  </div>`;
};

const root = /** @type {HTMLElement} */ (document.getElementById("root"));
root.textContent = ""; // what stood there until now would stay beside the page
render(html`<${Page} />`, root);
