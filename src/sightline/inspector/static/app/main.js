// The page: sessions above, turns on the left; on the right one of the views, brought after them.

import { signal } from "@preact/signals";
import { isExport, listen, news, useAnswer } from "app/api";
import { count, html, revealed } from "app/html";
import { Empty, Pending, TurnRoom } from "app/notice";
import { address, go, route, TITLES, VIEWS } from "app/route";
import { CHIPS, Filter, Overview, TurnList, useTurns } from "app/turns";
import { render } from "preact";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";

const follow = signal(false);

const help = signal(false);
const palette = signal(false);
const IS_MAC = /^Mac|^iP/.test(navigator.platform);
const PALETTE_KEYS = IS_MAC ? "⌘K" : "Ctrl+K";

// The views come after the first rows, all at once: a server that stops takes none of them away.
const views = signal({
  parts: /** @type {any} */ (null),
  error: /** @type {string | null} */ (null),
});
const bringViews = () =>
  import("app/views").then(
    (parts) => (views.value = { parts, error: null }),
    (error) => (views.value = { parts: null, error: error.message }),
  );

const Tabs = () => html`<nav aria-label="Views"><ul class="tabs">
  ${VIEWS.map(
    (view) => html`<li key=${view}><a href=${address({ view, options: {} })}
    aria-current=${route.value.view === view ? "page" : undefined}>${TITLES[view]}</a></li>`,
  )}
</ul></nav>`;

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

const Coming = ({ turn, list }) =>
  list.rows.get(turn) === null
    ? html`<${Empty} title=${`There is no turn ${turn}`}>Choose one in the list.<//>`
    : html`<${Pending} answer=${list.answer} what=${`turn ${turn}`} />`;

// The name of what a session's turns are read from; none until it is told.
const newsOf = (session) => (news.value.session === session ? news.value.turns : "");

const titleOf = (turn, title) => [turn && `${turn.turn} · ${turn.text}`, title, "Sightline"];

const Session = ({ about, agent }) => {
  const { session, turn, request, filter, view } = route.value;
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
  const isAnswered = Boolean(data || list.answer.error);
  useEffect(() => {
    if (isAnswered && !views.value.parts) bringViews();
  }, [isAnswered]);
  const current = list.rows.get(turn);
  const last = current?.requests ?? 0;
  // Not whenever the request is another: who follows may look back until there is news.
  useEffect(() => {
    if (follow.value && last > request) go({ request: last }, { replace: true });
  }, [follow.value, turn, last]);
  useEffect(() => {
    if (last > 0 && (request < 1 || request > last)) go({ request: last }, { replace: true });
  }, [last, request]);
  const actions = [...everywhere(session), ...amongTurns(turns, selected, current, choose)];
  useKeys(actions);
  const title = about.sessions.find((item) => item.id === session)?.title;
  useEffect(() => {
    document.title = revealed(titleOf(current, title).filter(Boolean).join(" · "));
  }, [current, title]);
  // A turn that has ended stays as it is; the ledger does not.
  const changes = view === "ledger" || current?.status === "running";
  const isComing = !current && data && turn !== null && view !== "ledger";
  const { parts, error } = views.value;
  const shows = parts && current && view !== "ledger"; // a turn, not the whole session
  const isOpening = !data || ((turn !== null || turns.length > 0) && list.rows.get(turn) !== null);
  const keepsRoom = !shows && view !== "ledger" && isOpening && !list.answer.error;
  const commands = () => [...actions, ...openings(about.sessions)];
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
      ${shows && html`<${parts.TurnHeader} turn=${current} fresh=${changes ? fresh : 0} />`}
      ${keepsRoom && html`<${TurnRoom} />`}
      <${Tabs} />
      ${shows && html`<${parts.Requests} turn=${current} />`}
      ${
        isComing
          ? html`<${Coming} turn=${turn} list=${list} />`
          : parts
            ? html`<${parts.View} turn=${current} requests=${list.requests} about=${about}
                agent=${agent} fresh=${changes ? fresh : ""} />`
            : html`<${Pending} answer=${{ error, retry: bringViews }} what="the views" />`
      }
    </div>
    ${
      parts &&
      html`<${parts.Overlays} help=${help} palette=${palette} paletteKeys=${PALETTE_KEYS}
        actions=${actions} commands=${commands} />`
    }
  </main>`;
};

const called = (item) => (item.agent ? `${item.agent}: ${item.title}` : item.title);

const openSession = (session) => go({ session, turn: null, request: 1, filter: "", options: {} });

const MOST_LISTED = 200; // sessions to choose from; the palette finds the others

const Sessions = ({ sessions, session }) => {
  const listed = sessions.filter((item, at) => at < MOST_LISTED || item.id === session);
  const others = sessions.length - listed.length;
  return html`<label>session <select value=${session}
    onChange=${(event) => openSession(Number(event.target.value))}>
    ${listed.map(
      (item) => html`<option key=${item.id} value=${item.id}>
      ${item.id} · ${called(item)}</option>`,
    )}
    ${
      others > 0 &&
      html`<option disabled>${count(others)} more: ${PALETTE_KEYS} finds them</option>`
    }
  </select></label>`;
};

const Page = () => {
  const answer = useAnswer("/api/sessions", news.value.sessions);
  const { data } = answer;
  const { session } = route.value;
  const agent = data?.sessions.find((item) => item.id === session)?.agent;
  const knowsWhich = session !== null || data?.sessions.length === 0;
  useEffect(() => (knowsWhich ? listen(session) : undefined), [session, knowsWhich]);
  useLayoutEffect(() => {
    if (data && route.value.session === null && data.sessions.length)
      go({ session: data.sessions[0].id }, { replace: true });
  }, [data]);
  return html`<div class="page">
    <header>
      <h1>Sightline</h1>
      ${
        data?.sessions.length > 0 &&
        html`<${Sessions} sessions=${data.sessions} session=${session} />`
      }
      ${
        !isExport &&
        html`<label><input type="checkbox" checked=${follow.value}
        onChange=${() => (follow.value = !follow.value)} /> follow</label>`
      }
      <span class=${news.value.isTrouble ? "warning" : "quiet"}
        role="status">${news.value.state}</span>
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
