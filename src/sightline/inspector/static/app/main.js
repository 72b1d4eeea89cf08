// The page: sessions above, turns on the left, one of the views on the right.

import { signal } from "@preact/signals";
import { isExport, listen, news, useAnswer } from "app/api";
import { ChangesView } from "app/changes";
import { Conversation } from "app/conversation";
import { Dialog } from "app/dialog";
import { TurnHeader } from "app/header";
import { html } from "app/html";
import { LedgerView } from "app/ledger";
import { Empty, Pending } from "app/notice";
import { AgentWhatIf } from "app/otherwise";
import { Palette } from "app/palette";
import { Picture } from "app/picture";
import { PromptView } from "app/prompt";
import { address, go, route, VIEWS } from "app/route";
import { SearchDialog } from "app/search";
import { TraceView } from "app/trace";
import { StateView } from "app/tree";
import { CHIPS, Filter, Overview, TurnList, useTurns } from "app/turns";
import { UnseenView } from "app/unseen";
import { WhatIf } from "app/whatif";
import { render } from "preact";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";

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
const follow = signal(false);

const help = signal(false);
const palette = signal(false);
const IS_MAC = /^Mac|^iP/.test(navigator.platform);
const PALETTE_KEYS = IS_MAC ? "⌘K" : "Ctrl+K";

const Help = ({
  actions,
}) => html`<${Dialog} label="Keyboard" onClose=${() => (help.value = false)}>
  <h2>Keyboard</h2>
  <dl>
    <dt><kbd>${PALETTE_KEYS}</kbd></dt><dd>anything, by a few letters</dd>
    ${actions
      .filter(({ keys }) => keys)
      .map(({ keys, name }) => html`<dt key=${keys}><kbd>${keys}</kbd></dt><dd>${name}</dd>`)}
  </dl>
  <button type="button" autofocus onClick=${() => (help.value = false)}>Close</button>
<//>`;

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

const View = ({ turn, requests, about, agent, fresh }) => {
  const { session, request, view } = route.value;
  const path = turn?.requests ? `/api/sessions/${session}/turns/${turn.turn}/${request}` : null;
  const own = ASKING.includes(view);
  const answer = useAnswer(own ? null : path, fresh);
  const { data } = answer;
  const key = `${session}.${turn?.turn}.${request}`;
  if (view === "ledger") return html`<${LedgerView} fresh=${fresh} />`;
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
    return html`<${TraceView} key=${key} trace=${data.trace} note=${data.note} />`;
  if (view === "whatif" && agent) return html`<${AgentWhatIf} key=${key} />`;
  if (view === "whatif") return html`<${WhatIf} key=${key} data=${data} choices=${about} />`;
  return html`<${Picture} key=${key} data=${data} />`;
};

const exportOf = (session) => `./export/${session}.html`;

// What can be done wherever one is: by a key, and in the palette.
const everywhere = (session) => [
  ...VIEWS.map((view, at) => ({
    kind: "view",
    keys: `${at + 1}`,
    name: TITLES[view],
    run: () => go({ view, options: {} }),
  })),
  {
    kind: "action",
    keys: "/",
    name: "Search everything said",
    run: () => go({ find: "" }, { replace: true }),
  },
  { kind: "action", keys: "?", name: "Keyboard help", run: () => (help.value = true) },
  ...(isExport
    ? []
    : [
        {
          kind: "action",
          keys: "f",
          name: "Follow the newest request, or stop following",
          run: () => (follow.value = !follow.value),
        },
        {
          kind: "action",
          name: "Export this session",
          run: () => location.assign(exportOf(session)),
        },
      ]),
];

const amongTurns = (turns, selected, current, choose) => [
  {
    kind: "action",
    keys: "j",
    name: "Next turn",
    run: () => choose(Math.min(selected + 1, turns.length - 1)),
  },
  {
    kind: "action",
    keys: "k",
    name: "Previous turn",
    run: () => choose(Math.max(selected - 1, 0)),
  },
  { kind: "action", keys: "g", name: "First turn", run: () => choose(0) },
  { kind: "action", keys: "G", name: "Last turn", run: () => choose(turns.length - 1) },
  {
    kind: "action",
    keys: "[",
    name: "Previous request of the turn",
    run: () => current && go({ request: Math.max(1, route.value.request - 1) }),
  },
  {
    kind: "action",
    keys: "]",
    name: "Next request of the turn",
    run: () => current && go({ request: Math.min(current.requests, route.value.request + 1) }),
  },
  ...CHIPS.map(([name, filter]) => ({
    kind: "action",
    name: `Filter: ${name}`,
    run: () => go({ filter }),
  })),
  { kind: "action", name: "Filter: none", run: () => go({ filter: "" }) },
];

const openings = (sessions) =>
  sessions.map((item) => ({
    kind: "session",
    name: `${item.id} · ${called(item)}`,
    run: () => openSession(item.id),
  }));

// Whoever sees a turn chosen may press the next key: it must not meet the keys of the page before.
const useKeys = (actions) =>
  useLayoutEffect(() => {
    const press = (event) => {
      const isPalette = event.key.toLowerCase() === "k" && (event.ctrlKey || event.metaKey);
      if (isPalette && !event.altKey && !event.shiftKey) palette.value = true;
      else {
        if (event.ctrlKey || event.metaKey || event.altKey) return;
        if (/^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName)) return;
        if (event.target.closest?.("dialog")) return;
        const action = actions.find(({ keys }) => keys === event.key);
        if (!action) return;
        action.run();
      }
      event.preventDefault();
    };
    addEventListener("keydown", press);
    return () => removeEventListener("keydown", press);
  });

const Overlays = ({ actions, sessions }) => html`<div>
  ${help.value && html`<${Help} actions=${actions} />`}
  ${route.value.find !== null && html`<${SearchDialog} />`}
  ${
    palette.value &&
    html`<${Palette} commands=${[...actions, ...openings(sessions)]}
      onClose=${() => (palette.value = false)} />`
  }
</div>`;

const Coming = ({ turn, list }) =>
  list.rows.get(turn) === null
    ? html`<${Empty} title=${`There is no turn ${turn}`}>Choose one in the list.<//>`
    : html`<${Pending} answer=${list.answer} what=${`turn ${turn}`} />`;

// The name of what a session's turns are read from; none until it is told.
const newsOf = (session) => (news.value.session === session ? news.value.turns : "");

const titleOf = (turn, title) => [turn && `${turn.turn} · ${turn.text}`, title, "Sightline"];

const Session = ({ about, agent }) => {
  const { session, turn, filter, view } = route.value;
  const fresh = newsOf(session);
  const list = useTurns(session, fresh);
  const { turns, data } = list;
  const summed = useRef(/** @type {string | null} */ (null));
  if (data) summed.current = data.seal ?? fresh; // the list first, then its sums
  const at = turns.indexOf(turn);
  const isLost = turn === null || (at < 0 && !filter);
  const selected = isLost ? turns.length - 1 : at; // at once: the address is changed later
  const choose = (index) =>
    index >= 0 && turns[index] && go({ turn: turns[index], request: 1, options: {} });
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
  const actions = [...everywhere(session), ...amongTurns(turns, selected, current, choose)];
  useKeys(actions);
  const title = about.sessions.find((item) => item.id === session)?.title;
  useEffect(() => {
    document.title = titleOf(current, title).filter(Boolean).join(" · ");
  }, [current, title]);
  // A turn that has ended stays as it is; the ledger does not.
  const changes = view === "ledger" || current?.status === "running";
  const isComing = !current && data && turn !== null && view !== "ledger";
  return html`<main>
    <aside aria-label="Turns of the session">
      <${Overview} session=${session} fresh=${summed.current} />
      <${Filter} list=${list} />
      <${TurnList} list=${list} selected=${selected} onSelect=${choose}
        what=${agent ? "answered" : "asked"} />
    </aside>
    <div class="view">
      ${
        agent &&
        html`<p class="quiet">A session of another agent's: ${agent}. It can be looked at, and not
          ${" "}gone on with. Each of its requests is a turn here.</p>`
      }
      ${
        current &&
        view !== "ledger" &&
        html`<${TurnHeader} turn=${current} fresh=${changes ? fresh : 0} />`
      }
      <${Tabs} />
      ${current && view !== "ledger" && html`<${Requests} turn=${current} />`}
      ${
        isComing
          ? html`<${Coming} turn=${turn} list=${list} />`
          : html`<${View} turn=${current} requests=${list.requests} about=${about} agent=${agent}
            fresh=${changes ? fresh : ""} />`
      }
    </div>
    <${Overlays} actions=${actions} sessions=${about.sessions} />
  </main>`;
};

const called = (item) => (item.agent ? `${item.agent}: ${item.title}` : item.title);

const openSession = (session) => go({ session, turn: null, request: 1, filter: "", options: {} });

const Page = () => {
  const answer = useAnswer("/api/sessions", news.value.sessions);
  const { data } = answer;
  const { session } = route.value;
  const agent = data?.sessions.find((item) => item.id === session)?.agent;
  const knowsWhich = session !== null || data?.sessions.length === 0;
  useEffect(() => (knowsWhich ? listen(session) : undefined), [session, knowsWhich]);
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
      ${!isExport && session !== null && html`<a href=${exportOf(session)} download>Export</a>`}
      <button type="button" class="plain right" aria-haspopup="dialog"
        onClick=${() => (palette.value = true)}><kbd>${PALETTE_KEYS}</kbd> anything</button>
      <button type="button" class="plain" aria-haspopup="dialog"
        onClick=${() => (help.value = true)}><kbd>?</kbd> keys</button>
    </header>
    ${!data && html`<${Pending} answer=${answer} what="the sessions" />`}
    ${
      data?.sessions.length === 0 &&
      html`<${Empty} title="This ledger has no session yet">Begin one with
        ${" "}<code>sightline chat</code>, or record another agent's with
        ${" "}<code>sightline gateway</code>.<//>`
    }
    ${data && session !== null && html`<${Session} key=${session} about=${data} agent=${agent} />`}
  </div>`;
};

const root = /** @type {HTMLElement} */ (document.getElementById("root"));
root.textContent = ""; // what stood there until now would stay beside the page
render(html`<${Page} />`, root);
