// The request as it was sent, and where it departs from another one.
import { useSignal } from "@preact/signals";
import { useAnswer } from "app/api";
import { count, dollars, html } from "app/html";
import { Empty, Pending } from "app/notice";
import { route, setOption } from "app/route";

const CopyButton = ({ label, text }) => {
  const done = useSignal("");
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
      done.value = "copied";
    } catch {
      done.value = "the browser does not allow it: select the text";
    }
  };
  return html`<span><button type="button" onClick=${copy}>${label}</button>
    <span role="status" class="quiet"> ${done.value}</span></span>`;
};

export const Excerpt = ({ label, before, text }) => html`<figure class="excerpt">
  <figcaption>${label}</figcaption>
  <pre tabindex="0">${before}<mark>${text || "(end)"}</mark></pre></figure>`;

export const DriftNote = ({ drift, label = "Against the request before it" }) => {
  if (!drift) return html`<${Empty} title="The first request: nothing to compare with" />`;
  const cost = drift.cost_usd === null ? "" : `, ${dollars(drift.cost_usd)}`;
  return html`<section aria-label=${label}>
    <h2>${label}</h2>
    <dl class="facts">
      <dt>kind</dt><dd><span class=${`tag ${drift.kind}`}>${drift.kind}</span></dd>
      <dt>in common</dt>
      <dd>${count(drift.common_bytes)} bytes, about ${count(drift.common_tokens)} tokens</dd>
      <dt>first difference</dt><dd>${drift.cause}</dd>
      <dt>to be evaluated again</dt>
      <dd>${count(drift.lost_tokens)} tokens of the old prefix${cost}</dd>
    </dl>
    <div class="pair">
      <${Excerpt} label="before" before=${drift.shared} text=${drift.old} />
      <${Excerpt} label="now" before=${drift.shared} text=${drift.new} />
    </div>
  </section>`;
};

const Compare = ({ requests }) => {
  const { session, turn, request, options } = route.value;
  const other = options.with ?? "";
  const path = other ? `/api/sessions/${session}/compare/${other}/${turn}.${request}` : null;
  const answer = useAnswer(path);
  return html`<section aria-label="Compare">
    <h2>Compare with another request</h2>
    <label>turn.request <select value=${other}
      onChange=${(event) => setOption("with", event.target.value)}>
      <option value="">none</option>
      ${requests.map((name) => html`<option key=${name} value=${name}>${name}</option>`)}
    </select></label>
    ${other && !answer.data && html`<${Pending} answer=${answer} what=${`request ${other}`} />`}
    ${
      other &&
      answer.data &&
      html`<${DriftNote} drift=${answer.data}
      label=${`From ${other} to ${turn}.${request}`} />`
    }
  </section>`;
};

export const PromptView = ({ data, requests }) => html`<section aria-label="Prompt">
  <p class="lead">${data.request.method} <code>${data.request.url}</code>
    ${" "}<span class="figure">${count(data.request.bytes)} bytes</span>
    ${" "}<span class=${`tag ${data.request.reproduced ? "ok" : "bad"}`}>
      ${
        data.request.kept ??
        (data.request.reproduced ? "byte for byte as sent" : "differs from what was sent")
      }</span></p>
  <p><${CopyButton} label="Copy as curl" text=${data.request.curl} /> ${" "}
     <${CopyButton} label="Copy body" text=${data.request.body} /></p>
  ${data.request.notes.map((note) => html`<p class="warning" key=${note}>${note}</p>`)}
  <pre class="body" tabindex="0" aria-label="Request body">${data.request.pretty}</pre>
  <${DriftNote} drift=${data.drift} />
  <${Compare} requests=${requests} />
</section>`;
