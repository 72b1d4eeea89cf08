// The turns of a session as a table, newest last, whatever their number; filtered, and summed up.
import { useSignal } from "@preact/signals";
import { get, isExport, recordedAt, useAnswer } from "app/api";
import { TextField } from "app/field";
import { admitted } from "app/filters";
import { count, dollars, html, many, percent, seconds, share } from "app/html";
import { VirtualList } from "app/list";
import { Empty, Pending } from "app/notice";
import { address, go, route } from "app/route";
import { useLayoutEffect, useMemo, useRef } from "preact/hooks";

const ROW = 46;
const MOST_ASKED = 100; // rows in one request
const PAUSE_MS = 200; // after the last key, before a filter is tried
const HEIGHT = 40; // of the chart
export const CHIPS = [
  ["failed", "status:failed"],
  ["cache missed", "cache<50%"],
];
/** @type {number[]} */
const NONE = [];
const LOOKS = {
  answered: "good",
  failed: "bad",
  removed: "gone",
  undone: "gone",
  dropped: "gone",
};

// What was said and done in a turn, as far as a filter asks for it; an export has all of it.
const saidIn = (session, row) => {
  const root = `/api/sessions/${session}`;
  const messages = recordedAt(`${root}/groups/${row.group}`)?.messages ?? [];
  const parts = messages.flatMap((message) => message.parts);
  const calls = parts.filter((part) => part.kind === "call");
  const actions = calls.map(({ text }) => /"action":"([^"]*)"/.exec(text)?.[1] ?? "");
  const asked = Array.from({ length: row.requests }, (_, at) =>
    recordedAt(`${root}/turns/${row.turn}/${at + 1}/verdicts`),
  );
  return {
    row,
    words: [row.text, ...parts.map((part) => part.text)].join("\n"),
    calls: [...calls.map(({ name }) => name), ...actions],
    models: asked.flatMap((verdicts) => (verdicts ? [verdicts.model] : [])),
  };
};

// The list of an export, filtered here: nobody else can.
const filtered = (session, filter, data) => {
  const { turns, problem } = admitted(
    filter,
    data.rows.map((row) => saidIn(session, row)),
  );
  const kept = new Set(turns);
  const requests = data.requests.filter((_, at) => kept.has(data.turns[at]));
  return { ...data, turns, requests, problem };
};

/**
 * The turns that the filter admits: their numbers, and rows by number. Rows are asked for when
 * they are first seen, and again when something changed; until then the old ones stay.
 */
export const useTurns = (session, fresh) => {
  const { filter } = route.value;
  const query = filter && !isExport ? `?filter=${encodeURIComponent(filter)}` : "";
  const answer = useAnswer(`/api/sessions/${session}/turns${query}`, fresh);
  const data = useMemo(
    () =>
      answer.data && isExport && filter ? filtered(session, filter, answer.data) : answer.data,
    [answer.data, filter],
  );
  const rows = useSignal(new Map());
  const asked = useRef(new Set());
  const keep = (found) => {
    rows.value = new Map([...rows.peek(), ...found.map((row) => [row.turn, row])]);
  };
  useLayoutEffect(() => {
    if (!data) return;
    asked.current = new Set(data.rows.map((row) => row.turn));
    keep(data.rows);
  }, [data]);
  const want = (turns) => {
    const missing = turns.filter((turn) => !asked.current.has(turn)).slice(0, MOST_ASKED);
    if (isExport || missing.length === 0) return;
    const asking = asked.current;
    for (const turn of missing) asking.add(turn);
    get(`/api/sessions/${session}/rows?of=${missing.join(",")}`).then(
      (answer) => {
        keep(answer.rows);
        const found = new Set(answer.rows.map((row) => row.turn));
        const absent = missing.filter((turn) => !found.has(turn));
        rows.value = new Map([...rows.peek(), ...absent.map((turn) => [turn, null])]);
      },
      () => {
        for (const turn of missing) asking.delete(turn);
      },
    );
  };
  const names = useMemo(
    () =>
      (data?.turns ?? []).flatMap((turn, at) =>
        Array.from({ length: data.requests[at] }, (_, n) => `${turn}.${n + 1}`),
      ),
    [data],
  );
  return { turns: data?.turns ?? NONE, rows: rows.value, want, requests: names, data, answer };
};

const Meter = ({ turn }) => {
  const reused = share(turn.cached_tokens, turn.prompt_tokens);
  const about = `${reused} of ${count(turn.prompt_tokens)} tokens reused`;
  return html`<span class="meter" title=${about}>
    <i style=${{ width: `${percent(turn.cached_tokens, turn.prompt_tokens)}%` }}></i>
    <span class="unseen">${about}</span></span>`;
};

export const Cost = ({ usd }) => html`<span class="figure">${dollars(usd)}</span>`;

// Of a turn that runs nobody knows how long it takes; its conversation says for how long it has.
const timeOf = ({ status, requests, duration_ms }) => {
  if (status === "running") return "…";
  return requests ? seconds(duration_ms) : "–";
};

const Turn = (turn) => html`<span class=${`turn ${LOOKS[turn.status] ?? "odd"}`}>
  <b>${turn.turn}</b>
  <span class="line">${turn.text || "(its words are gone)"}</span>
  ${turn.prompt_tokens ? html`<${Meter} turn=${turn} />` : html`<span></span>`}
  <${Cost} usd=${turn.cost_usd} />
  <span class="figure">${timeOf(turn)}</span>
  <span class="line about"><span class=${`tag ${turn.status}`}>${turn.status}</span>
    ${turn.requests > 1 && ` ${turn.requests} requests`}
    ${turn.reason && ` ${turn.reason}`}</span></span>`;

const Unread = (turn) =>
  html`<span class="turn"><b>${turn}</b> <span class="quiet">…</span></span>`;

const NoTurns = ({ list }) => {
  if (!list.data) return html`<${Pending} answer=${list.answer} what="the turns" />`;
  if (list.turns.length > 0 || list.data.problem) return null;
  return route.value.filter
    ? html`<${Empty} title="No turn is like that"><a href=${address({ filter: "" })}>Show all
        ${" "}turns</a><//>`
    : html`<${Empty} title="No turn yet">Start one with <code>sightline chat</code>; it appears
        ${" "}here.<//>`;
};

const TurnHeads = ({ what }) => html`<div class="turn heads quiet" aria-hidden="true">
  <span>#</span><span>${what}</span>
  <span>cached</span><span class="figure">cost</span><span class="figure">time</span></div>`;

// Where the page is one column, what was chosen stands below the list.
const showChosen = ({ target }) => {
  if (target.closest(".vrow")) document.querySelector(".view")?.scrollIntoView();
};

export const TurnList = ({ list, selected, onSelect, what }) => html`<div class="turns"
  onClick=${showChosen}>
  <${TurnHeads} what=${what} />
  <${NoTurns} list=${list} />
  <${VirtualList}
    id="turns" label="Turns" count=${list.turns.length} height=${ROW}
    selected=${selected} onSelect=${onSelect}
    seen=${(first, last) => list.want(list.turns.slice(first, last))}
    row=${(index) => {
      const row = list.rows.get(list.turns[index]);
      return row ? Turn(row) : Unread(list.turns[index]);
    }} />
</div>`;

export const Filter = ({ list }) => {
  const { filter } = route.value;
  const timer = useRef(0);
  const tryIt = (event) => {
    const wanted = event.target.value.trim();
    clearTimeout(timer.current);
    timer.current = setTimeout(() => go({ filter: wanted }, { replace: true }), PAUSE_MS);
  };
  return html`<form role="search" class="filter" aria-label="Filter"
    onSubmit=${(event) => event.preventDefault()}>
    <${TextField} type="search" aria-label="Filter turns" value=${filter} spellcheck=${false}
      placeholder="text, status:failed, cache<50%, tool:…, cost>0.1" onInput=${tryIt} />
    ${CHIPS.map(
      ([name, wanted]) => html`<a key=${name} class="tag" aria-current=${filter === wanted}
        href=${address({ filter: filter === wanted ? "" : wanted })}>${name}</a>`,
    )}
    ${list.data?.problem && html`<p class="error" role="alert">${list.data.problem}</p>`}
    ${
      filter &&
      list.data?.problem === "" &&
      html`<p class="quiet" role="status">${many(list.turns.length, "turn")}</p>`
    }
  </form>`;
};

// What nobody knows the price of is not free: it is said, and the line of the cost stops there.
const isPriced = ({ cost_usd: usd }) => usd !== null;

const Column = (column, at, tallest) => {
  const high = (tokens) => (HEIGHT * tokens) / tallest;
  const fresh = Math.max(0, column.prompt_tokens - column.cached_tokens);
  const cached = column.prompt_tokens - fresh;
  const turns = column.first === column.last ? column.first : `${column.first}–${column.last}`;
  return html`<g key=${at} class="column" onClick=${() => go({ turn: column.first, request: 1 })}>
    <title>turn ${turns}: ${count(column.prompt_tokens)} tokens,
      ${" "}${count(column.cached_tokens)} reused,
      ${" "}price ${dollars(column.cost_usd, column.unpriced)}</title>
    <rect class="back" x=${at} y="0" width="1" height=${HEIGHT} />
    <rect class="cached" x=${at} y=${HEIGHT - high(cached)} width="0.8"
      height=${high(cached)} />
    <rect class="fresh" x=${at} y=${HEIGHT - high(column.prompt_tokens)} width="0.8"
      height=${high(fresh)} /></g>`;
};

// A path through the costs that are known.
const line = (columns, dearest) =>
  columns
    .map((column, at) => {
      if (!isPriced(column)) return "";
      const high = HEIGHT - (HEIGHT * column.cost_usd) / dearest;
      const goesOn = at > 0 && isPriced(columns[at - 1]);
      return goesOn ? `L${at + 0.4} ${high}` : `M${at} ${high}h0.4`;
    })
    .join("");

const Chart = ({ data }) => {
  const tallest = Math.max(1, ...data.columns.map((column) => column.prompt_tokens));
  const dearest = Math.max(1e-9, ...data.columns.map((column) => column.cost_usd));
  const label = `Tokens, cache and cost over ${many(data.turns, "turn")}`;
  return html`<div>
    <svg class="chart" role="img" aria-label=${label} preserveAspectRatio="none"
      viewBox=${`0 0 ${data.columns.length} ${HEIGHT}`}>
      ${data.columns.map((column, at) => Column(column, at, tallest))}
      <path class="cost" d=${line(data.columns, dearest)} />
    </svg>
    <p class="quiet"><i class="key cached"></i> reused <i class="key fresh"></i> evaluated
      ${" "}<i class="key cost"></i> cost</p>
  </div>`;
};

// What a session cost and reused, in all and over its turns.
export const Overview = ({ session, fresh }) => {
  const { data } = useAnswer(`/api/sessions/${session}/overview`, fresh);
  if (!data || data.turns === 0) return null;
  const { beside_usd: usd, beside_unpriced: unpriced } = data;
  const beside = (usd > 0 || unpriced > 0) && dollars(usd, unpriced);
  return html`<section class="overview" aria-label="The session">
    <p><b>${isPriced(data) ? dollars(data.cost_usd, data.unpriced) : "Price unknown"}</b>
      ${beside && ` + ${beside} beside the turns`}
      ${" "}· ${many(data.turns, "turn")} · ${many(data.requests, "request")} ·
      ${" "}${count(data.prompt_tokens)} tokens${
        data.prompt_tokens > 0 && `, ${share(data.cached_tokens, data.prompt_tokens)} from cache`
      }</p>
    ${data.prompt_tokens > 0 && html`<${Chart} data=${data} />`}
  </section>`;
};
