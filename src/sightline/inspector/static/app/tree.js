// Every app's tree at that request: shown, summarised, cut and why; what changed since.
import { useSignal } from "@preact/signals";
import { html, count } from "app/html";
import { post, useAnswer } from "app/api";
import { route } from "app/route";
import { VirtualList } from "app/list";

const ROW = 22;

const Line = (line) => html`<span class=${`node ${line.kind}`} style=${{ paddingLeft: `${line.depth * 14}px` }}>
  <span>${line.text}</span>${line.reason && html`<span class="tag">${line.kind}: ${line.reason}</span>`}</span>`;

const Invoke = ({ app }) => {
  const said = useSignal("");
  const send = async (event) => {
    event.preventDefault();
    const form = new FormData(event.target);
    try {
      const params = JSON.parse(form.get("params") || "{}");
      const answer = await post("/api/invoke", { app: app.id, path: form.get("path"), action: form.get("action"), params });
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

const App = ({ app, allowInvoke }) => {
  const chosen = useSignal(-1);
  return html`<article aria-label=${app.name}>
    <h3>${app.name} <span class="quiet">${app.id}</span> <span class=${`tag ${app.status}`}>${app.status}</span></h3>
    <p class="quiet">${count(app.shown)} of ${count(app.lines.length)} nodes shown, ${count(app.cut)} cut,
      ${" "}${count(app.summarised)} summarised</p>
    ${app.changes.length > 0 && html`<details open><summary>${count(app.changes.length)} changes since the request before</summary>
      <ul class="changes">${app.changes.map((change, at) => html`<li key=${at}><code>${change.op}</code> <code>${change.path}</code> ${change.text}</li>`)}</ul></details>`}
    <${VirtualList} id=${`tree-${app.id}`} label=${`Nodes of ${app.name}`} items=${app.lines} height=${ROW}
      selected=${chosen.value} onSelect=${(index) => (chosen.value = index)} row=${Line} />
    ${chosen.value >= 0 && html`<p role="status"><code>${app.lines[chosen.value]?.path}</code></p>`}
    ${allowInvoke && html`<${Invoke} app=${app} />`}
  </article>`;
};

export const StateView = ({ allowInvoke, fresh }) => {
  const { session, turn, request } = route.value;
  const { data, error } = useAnswer(`/api/sessions/${session}/turns/${turn}/${request}/state`, fresh);
  return html`<section aria-label="State">
    ${error && html`<p class="error" role="alert">${error}</p>`}
    ${data && data.apps.length === 0 && html`<p class="quiet">No app was connected.</p>`}
    ${data && data.apps.map((app) => html`<${App} key=${app.id} app=${app} allowInvoke=${allowInvoke} />`)}
    ${data && data.tail && html`<details><summary>The tail, as the model read it</summary>
      <pre tabindex="0">${data.tail}</pre></details>`}
  </section>`;
};
