// Where the time of a turn went.
import { html, seconds } from "app/html";
import { Empty } from "app/notice";

export const TraceView = ({ trace, duration, note = "", children = null }) => {
  if (trace.length === 0)
    return html`<section aria-label="Trace"><${Empty} title="Nothing was timed in this turn">
    ${note}<//>${children}
    </section>`;
  const total = Math.max(1, ...trace.map((span) => span.end_ms));
  return html`<section aria-label="Trace">
    <p class="lead"><b>${seconds(total)}</b> in all${
      duration !== null &&
      seconds(duration) !== seconds(total) &&
      html`, <span class="quiet">${seconds(duration)} of it since the first request was sent</span>`
    }</p>
    <table class="trace"><caption>Waterfall of the turn</caption>
      <thead><tr><th scope="col">step</th><th scope="col">took</th>
        <th scope="col">when</th></tr></thead>
      <tbody>${trace.map(
        (span, at) => html`<tr key=${at}>
        <th scope="row">${span.name}</th><td>${seconds(span.end_ms - span.start_ms)}</td>
        <td class="lane"><span class=${`span ${span.kind}`} style=${{
          marginLeft: `${Math.min(99.7, (100 * span.start_ms) / total)}%`,
          width: `${Math.max(0.3, (100 * (span.end_ms - span.start_ms)) / total)}%`,
        }}></span></td></tr>`,
      )}</tbody></table>
    ${children}
  </section>`;
};
