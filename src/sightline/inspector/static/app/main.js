// The page: sessions above, turns on the left, one of the views on the right.

import { signal, useSignal } from "@preact/signals";
import { isExport, listen, news, useAnswer } from "app/api";
import { html } from "app/html";
import { LedgerView } from "app/ledger";
import { Picture } from "app/picture";
import { PromptView } from "app/prompt";
import { address, go, route, VIEWS } from "app/route";
import { TraceView } from "app/trace";
import { StateView } from "app/tree";
import { TurnList } from "app/turns";
import { WhatIf } from "app/whatif";
import { render } from "preact";
import { useEffect, useLayoutEffect } from "preact/hooks";

const TITLES = {
  picture: "Picture",
  prompt: "Prompt",
  state: "State",
  trace: "Trace",
  whatif: "What if",
  ledger: "Ledger",
};
const KEYS = [
  ["j / k", "next, previous turn"],
  ["g / G", "first, last turn"],
  ["1 – 6", "the views"],
  ["[ / ]", "previous, next request of the turn"],
  ["f", "follow the newest turn"],
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
  const path = turn ? `/api/sessions/${session}/turns/${turn.turn}/${request}` : null;
  const { data, error } = useAnswer(view === "ledger" || view === "state" ? null : path, fresh);
  const key = `${session}.${turn?.turn}.${request}`;
  if (view === "ledger") return html`<${LedgerView} fresh=${fresh} />`;
  if (!turn)
    return html`<p class="quiet">No turn yet. Start one with <code>sightline chat</code>;
      ${" "}it appears here.</p>`;
  if (view === "state")
    return html`<${StateView} key=${key} allowInvoke=${about.allow_invoke} fresh=${fresh} />`;
  if (error) return html`<p class="error" role="alert">${error}</p>`;
  if (!data) return html`<p class="quiet">Loading…</p>`;
  if (view === "prompt")
    return html`<${PromptView} key=${key} data=${data} requests=${requests} />`;
  if (view === "trace") return html`<${TraceView} key=${key} trace=${data.trace} />`;
  if (view === "whatif") return html`<${WhatIf} key=${key} data=${data} choices=${about} />`;
  return html`<${Picture} key=${key} data=${data} />`;
};

// Whoever sees a turn chosen may press the next key: it must not meet the keys of the page before.
const useKeys = (turns, selected, choose, help) =>
  useLayoutEffect(() => {
    const press = (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      if (/^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName)) return;
      const turn = turns[selected];
      const moves = {
        j: () => choose(Math.min(selected + 1, turns.length - 1)),
        k: () => choose(Math.max(selected - 1, 0)),
        g: () => choose(0),
        G: () => choose(turns.length - 1),
        f: () => (follow.value = !follow.value),
        "?": () => (help.value = !help.value),
        Escape: () => (help.value = false),
        "[": () => turn && go({ request: Math.max(1, route.value.request - 1) }),
        "]": () => turn && go({ request: Math.min(turn.requests, route.value.request + 1) }),
      };
      if (/^[1-6]$/.test(event.key)) go({ view: VIEWS[Number(event.key) - 1], options: {} });
      else if (moves[event.key]) moves[event.key]();
      else return;
      event.preventDefault();
    };
    addEventListener("keydown", press);
    return () => removeEventListener("keydown", press);
  }, [turns, selected]);

const Session = ({ about }) => {
  const { session, turn } = route.value;
  const fresh = news.value.turns;
  const { data, error } = useAnswer(`/api/sessions/${session}/turns`, fresh);
  const turns = data?.turns ?? [];
  const help = useSignal(false);
  const selected = turns.findIndex((item) => item.turn === turn);
  const choose = (index) =>
    index >= 0 && turns[index] && go({ turn: turns[index].turn, request: 1, options: {} });
  useEffect(() => {
    if (turns.length && (selected < 0 || follow.value)) {
      const last = turns[turns.length - 1];
      if (last.turn !== turn) go({ turn: last.turn, request: 1 }, { replace: true });
    }
  }, [turns.length, follow.value, selected < 0]);
  useKeys(turns, selected, choose, help);
  const current = turns[selected];
  // A turn that has ended stays as it is; the ledger does not.
  const changes = route.value.view === "ledger" || current?.status === "running";
  const requests = turns.flatMap((item) =>
    Array.from({ length: item.requests }, (_, at) => `${item.turn}.${at + 1}`),
  );
  return html`<main>
    <aside aria-label="Turns of the session">
      ${error && html`<p class="error" role="alert">${error}</p>`}
      <${TurnList} turns=${turns} selected=${selected} onSelect=${choose} />
    </aside>
    <div class="view">
      <${Tabs} />
      ${current && route.value.view !== "ledger" && html`<${Requests} turn=${current} />`}
      <${View} turn=${current} requests=${requests} about=${about} fresh=${changes ? fresh : 0} />
    </div>
    ${help.value && html`<${Help} open=${help} />`}
  </main>`;
};

const openSession = (session) => go({ session, turn: null, request: 1, options: {} });

const Page = () => {
  const { data, error } = useAnswer("/api/sessions", news.value.sessions);
  const { session } = route.value;
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
          ${item.id} · ${item.name || "unnamed"}</option>`,
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
    ${data && session !== null && html`<${Session} key=${session} about=${data} />`}
  </div>`;
};

const root = /** @type {HTMLElement} */ (document.getElementById("root"));
root.textContent = ""; // what stood there until now would stay beside the page
listen();
render(html`<${Page} />`, root);
