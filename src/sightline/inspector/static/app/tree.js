// Every app's tree at that request: shown, summarised, cut and why; what changed since.

import { useSignal } from "@preact/signals";
import { get, isExport, post, useAnswer } from "app/api";
import { Folds } from "app/folds";
import { count, html, many } from "app/html";
import { VirtualList } from "app/list";
import { Empty, Pending } from "app/notice";
import { address, route, setOption } from "app/route";
import { useEffect, useRef } from "preact/hooks";

const ROW = 22;
const WHOLE = 400; // a tree with more lines begins with its branches folded

const Line = ({
  line,
  folded,
  onToggle,
}) => html`<span class=${`node ${line.kind}`} style=${{ paddingLeft: `${line.depth * 14}px` }}>
  <span class="fold" aria-hidden="true" onClick=${onToggle}>
    ${line.below === 0 ? "" : folded ? "▸" : "▾"}</span><span class="text">${line.text}</span>
  ${folded && html`<span class="tag">${count(line.below)} below</span>`}
  ${line.reason && html`<span class="tag">${line.kind}: ${line.reason}</span>`}</span>`;

/**
 * Lines by their number, asked for a page at a time when they are first seen.
 * @param {string} root
 * @param {number} size
 * @returns {[(line: number) => any, (lines: number[]) => void]}
 */
const useLines = (root, size) => {
  const pages = useSignal(/** @type {Map<number, any[]>} */ (new Map()));
  const asked = useRef(new Set());
  const want = (lines) => {
    for (const page of new Set(lines.map((line) => Math.floor(line / size)))) {
      if (asked.current.has(page)) continue;
      asked.current.add(page);
      get(`${root}/nodes/${page}`).then(
        (data) => (pages.value = new Map(pages.peek()).set(page, data.lines)),
        () => asked.current.delete(page),
      );
    }
  };
  return [(line) => pages.value.get(Math.floor(line / size))?.[line % size], want];
};

const inWords = ({ total, found }, at) => {
  if (total === 0) return "nothing";
  const visited = total > found.length ? `, the first ${count(found.length)} can be visited` : "";
  return `${count(at + 1)} of ${count(total)}${visited}`;
};

const Find = ({ root, name, onFound }) => {
  const hits = useSignal(/** @type {any} */ (null));
  const at = useSignal(0);
  const step = (by) => {
    const { found } = hits.value;
    if (found.length === 0) return;
    at.value = (at.value + by + found.length) % found.length;
    onFound(found[at.value]);
  };
  const search = async (event) => {
    event.preventDefault();
    const text = String(new FormData(event.target).get("find"));
    if (hits.value && hits.value.text === text) return step(1);
    hits.value = text
      ? { text, ...(await get(`${root}/find?q=${encodeURIComponent(text)}`)) }
      : null;
    at.value = 0;
    return hits.value && step(0);
  };
  const found = hits.value;
  return html`<form role="search" class="find" aria-label=${`Search of ${name}`} onSubmit=${search}>
    <label>find <input type="search" name="find"
      aria-label=${`Find in the nodes of ${name}`} /></label>
    <button>Next</button>
    ${" "}<button type="button" disabled=${!found} onClick=${() => step(-1)}>Previous</button>
    <span role="status" class="quiet">${found && inWords(found, at.value)}</span>
  </form>`;
};

const Nodes = ({ app, at, root }) => {
  const folds = useSignal(new Folds(app.nodes));
  const [lineAt, want] = useLines(root, app.page_lines);
  const [ownApp, ownLine] = (route.value.options.node ?? "").split(".").map(Number);
  const chosen = ownApp === at && ownLine < app.nodes ? ownLine : -1;
  const choose = (line) => setOption("node", `${at}.${line}`);
  const foldsOf = async (line) =>
    (await get(`${root}/folds/${line}`).catch(() => ({ folds: [] }))).folds;
  const foldAll = async () => (folds.value = new Folds(app.nodes, new Map(await foldsOf(0))));
  useEffect(() => {
    if (app.nodes > WHOLE)
      foldAll().then(() => {
        if (chosen >= 0) folds.value = folds.peek().reveal(chosen);
      });
  }, []);
  const open = async (line) => {
    const children = await foldsOf(line); // its children are shown, nothing below them yet
    folds.value = folds.peek().unfold(line).fold(children);
  };
  const toggle = (line) => {
    const below = lineAt(line)?.below;
    if (!below) return;
    if (folds.value.folded.has(line)) open(line);
    else folds.value = folds.value.fold([[line, below]]);
  };
  const parentOf = (line) => {
    const depth = lineAt(line)?.depth ?? 0;
    for (let above = line - 1; above >= 0; above -= 1) {
      const other = lineAt(above);
      if (!other) return above; // not read yet: go as far as is known, and read on from there
      if (other.depth < depth) return above;
    }
    return line;
  };
  const keys = {
    ArrowRight: () =>
      lineAt(chosen)?.below && (folds.value.folded.has(chosen) ? open(chosen) : choose(chosen + 1)),
    ArrowLeft: () =>
      lineAt(chosen)?.below && !folds.value.folded.has(chosen)
        ? toggle(chosen)
        : chosen > 0 && choose(parentOf(chosen)),
    Enter: () => toggle(chosen),
  };
  const visible = folds.value;
  const about = (row) => {
    const line = visible.lineAt(row);
    const known = lineAt(line);
    if (!known) return {};
    return {
      "aria-level": known.depth + 1,
      "aria-expanded": known.below ? !visible.folded.has(line) : undefined,
    };
  };
  const show = (line) => {
    folds.value = folds.value.reveal(line);
    choose(line);
  };
  const known = chosen >= 0 && lineAt(chosen);
  return html`<div>
    <div class="tools">
      ${
        app.nodes > 1 &&
        html`<button type="button" onClick=${foldAll}>Fold</button>
        ${" "}<button type="button"
        onClick=${() => (folds.value = new Folds(app.nodes))}>Unfold all</button>`
      }
      ${!isExport && html`<${Find} root=${root} name=${app.name} onFound=${show} />`}
    </div>
    <${VirtualList} id=${`tree-${at}`} kind="treegrid" label=${`Nodes of ${app.name}`}
      count=${visible.count} height=${ROW} fit
      selected=${visible.rowOf(chosen)} about=${about} keys=${keys}
      onSelect=${(row) => choose(visible.lineAt(row))}
      seen=${(first, last) =>
        want(
          Array.from({ length: Math.max(0, last - first) }, (_, by) => visible.lineAt(first + by)),
        )}
      row=${(row) => {
        const line = visible.lineAt(row);
        const known = lineAt(line);
        return known
          ? Line({ line: known, folded: visible.folded.has(line), onToggle: () => toggle(line) })
          : html`<span class="node quiet">…</span>`;
      }} />
    ${
      known &&
      html`<p role="status"><code>${known.path}</code></p><pre tabindex="0"
      aria-label="The chosen node">${known.text}</pre>`
    }
  </div>`;
};

const Invoke = ({ app }) => {
  const said = useSignal("");
  const send = async (event) => {
    event.preventDefault();
    const form = new FormData(event.target);
    try {
      const params = JSON.parse(String(form.get("params") || "{}"));
      const answer = await post("/api/invoke", {
        app: app.id,
        path: form.get("path"),
        action: form.get("action"),
        params,
      });
      said.value = JSON.stringify(answer, null, 2);
    } catch (error) {
      said.value = error.message;
    }
  };
  return html`<form class="invoke" aria-label=${`Invoke an action of ${app.name}`} onSubmit=${send}>
    <label>path <input name="path" value="/" required /></label>
    <label>action <input name="action" required /></label>
    <label>params <input name="params" value="{}" /></label>
    <button>Invoke</button><pre role="status">${said.value}</pre></form>`;
};

const Change = (change, index) => html`<li key=${index}>
  <code>${change.op}</code> <code>${change.path}</code> ${change.text}</li>`;

const App = ({ app, at, root, allowInvoke }) => html`<article aria-label=${app.name}>
  <h2>${app.name} <span class="quiet">${app.id}</span>
    ${" "}<span class=${`tag ${app.status}`}>${app.status}</span></h2>
  ${
    app.nodes > 0
      ? html`<p class="quiet">${count(app.shown)} of ${count(app.nodes)} nodes shown,
        ${" "}${count(app.cut)} cut, ${count(app.summarised)} summarised</p>`
      : html`<p class="quiet">It showed nothing:
        ${" "}<a href=${address({ view: "unseen", options: {} })}>why</a></p>`
  }
  ${
    app.changes.length > 0 &&
    html`<details open>
    <summary>${many(app.changes.length, "change")} since the request before</summary>
    <ul class="changes">${app.changes.map(Change)}</ul></details>`
  }
  ${app.nodes > 0 && html`<${Nodes} app=${app} at=${at} root=${`${root}/${at}`} />`}
  ${allowInvoke && html`<${Invoke} app=${app} />`}
</article>`;

export const StateView = ({ allowInvoke, fresh }) => {
  const { session, turn, request } = route.value;
  const root = `/api/sessions/${session}/turns/${turn}/${request}/state`;
  const answer = useAnswer(root, fresh);
  const { data } = answer;
  return html`<section aria-label="State">
    ${!data && html`<${Pending} answer=${answer} what="the state of the apps" />`}
    ${
      data?.apps.length === 0 &&
      !data.note &&
      html`<${Empty} title="No app was connected">An app that announces itself, or that
        ${" "}<code>apps.connect</code> names, is shown here as it was at each request.<//>`
    }
    ${data?.note && html`<${Empty} title=${data.note} />`}
    ${data?.apps.map(
      (app, at) => html`<${App} key=${app.id} app=${app} at=${at} root=${root}
      allowInvoke=${allowInvoke} />`,
    )}
    ${
      data?.tail &&
      html`<details><summary>The tail, as the model read it</summary>
      <pre tabindex="0">${data.tail}</pre></details>`
    }
  </section>`;
};
