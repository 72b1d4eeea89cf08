// Another agent's session: its requests with what they used, cost and lost; one as it was sent.

import { isExport, useAnswer } from "app/api";
import { count, dollars, html, seconds, share } from "app/html";
import { VirtualList } from "app/list";
import { Empty, Pending, Problem } from "app/notice";
import { Excerpt } from "app/prompt";
import { route, setOption } from "app/route";
import { Meter, TurnHeads } from "app/turns";
import { Change, Choice, Heads, Notes, useOutcome } from "app/whatif";

const ROW = 46;

const figures = (item) =>
  item.prompt_tokens === null
    ? [item.ended || "no usage reported"]
    : [
        `${count(item.prompt_tokens)} tokens`,
        `${share(item.cached_tokens, item.prompt_tokens)} reused`,
        ...(item.duration_ms === null ? [] : [seconds(item.duration_ms)]),
        dollars(item.cost_usd),
      ];

const Row = (item, at) => html`<span class=${`turn ${item.loss ? "odd" : "good"}`}>
  <b>${at + 1}</b>
  <span class="line">${item.model}</span>
  ${item.prompt_tokens ? html`<${Meter} turn=${item} />` : html`<span></span>`}
  <span class="figure">${item.cost_usd === null ? "?" : dollars(item.cost_usd)}</span>
  <span class="figure">${seconds(item.duration_ms)}</span>
  <span class="line about">${item.loss?.words ?? item.ended}</span></span>`;

const paid = (loss) => [
  `${count(loss.tokens)} tokens`,
  ...(loss.cost_usd === null ? [] : [dollars(loss.cost_usd)]),
];

const Loss = ({ loss }) => html`<section aria-label="What was lost">
  <h3>What was lost</h3>
  <p><b>${paid(loss).join(", ")}</b>:
    ${" "}${loss.words}${loss.path && html` at <code>${loss.path}</code>`}; ${loss.advice}</p>
  ${
    (loss.before || loss.now) &&
    html`<div class="pair">
      <${Excerpt} label="before" before="" text=${loss.before} />
      <${Excerpt} label="now" before="" text=${loss.now} />
    </div>`
  }
</section>`;

const Drift = ({ drift }) => html`<section aria-label="Where it departs">
  <h3>Against the earlier request that it begins most like</h3>
  <p>${count(drift.common_bytes)} bytes in common; marks of the cache are bytes, too</p>
  <div class="pair">
    <${Excerpt} label="before" before=${drift.shared} text=${drift.old} />
    <${Excerpt} label="now" before=${drift.shared} text=${drift.new} />
  </div>
</section>`;

const Outcome = ({ data }) => html`<div>
  <${Notes} notes=${data.notes} />
  <table class="compare"><caption>What would change in ${count(data.requests)}
      ${data.requests === 1 ? " request" : " requests"}</caption><${Heads} />
    <tbody>
      ${data.rows.map(
        ([name, before, after]) => html`<${Change} key=${name} name=${name} before=${before}
          after=${after} />`,
      )}
      <${Change} name="price of the prompts" before=${data.usd[0]} after=${data.usd[1]}
        show=${dollars} />
    </tbody></table>
  ${data.how.length > 0 && html`<pre tabindex="0" aria-label="How">${data.how.join("\n")}</pre>`}
</div>`;

const WhatIf = ({ session, number }) => {
  const { tools = "", tail = "", over } = route.value.options;
  const path = `/api/sessions/${session}/exchanges/${over ? 0 : number}/whatif`;
  const asks = !isExport && Boolean(tools || tail);
  const outcome = useOutcome(asks ? path : null, { tools, tail });
  return html`<section aria-label="What if">
    <h3>What if</h3>
    ${
      isExport
        ? html`<${Empty} title="An export cannot compute">Open the session in the inspector.<//>`
        : html`<form class="whatif" aria-label="Change the requests"
          onSubmit=${(event) => event.preventDefault()}>
          <${Choice} name="tail" none="as it was" values=${["off", "whole"]} />
          <${Choice} name="tools" none="as they came" values=${["sorted"]} />
          <${Choice} name="over" none="this request" values=${["all requests"]} />
        </form>`
    }
    ${outcome.error && html`<${Problem} error=${outcome.error} />`}
    ${asks && !outcome.body && html`<p class="notice waiting quiet" role="status">Computing…</p>`}
    ${outcome.data && html`<${Outcome} data=${outcome.data} />`}
  </section>`;
};

const Exchange = ({ session, number, at }) => {
  const answer = useAnswer(`/api/sessions/${session}/exchanges/${number}`);
  const { data } = answer;
  if (!data) return html`<${Pending} answer=${answer} what="the request" />`;
  return html`<section aria-label="Exchange">
    <h2>Request ${at + 1}</h2>
    <p class="lead">${data.sent_at} <code>${data.api}</code> ${data.model}
      ${" "}<span class="figure">${figures(data).join(" · ")}</span></p>
    ${data.loss ? html`<${Loss} loss=${data.loss} />` : html`<p>Nothing was lost.</p>`}
    ${data.drift && html`<${Drift} drift=${data.drift} />`}
    ${data.request !== null && html`<${WhatIf} session=${session} number=${number} />`}
    <h3>Reply</h3>
    ${data.reply.length === 0 && html`<p class="quiet">${data.ended || "not kept"}</p>`}
    ${data.reply.map(
      (part, at) => html`<div class="part" key=${at}><span class="tag">${part.kind}</span>
      <pre tabindex="0">${part.text}</pre></div>`,
    )}
    <h3>Request</h3>
    ${
      data.request === null
        ? html`<p class="quiet">Unknown: a transcript does not hold what was sent.</p>`
        : html`<pre class="body" tabindex="0" aria-label="Request body">${data.request}</pre>`
    }
  </section>`;
};

export const AgentSession = ({ session, agent, fresh }) => {
  const answer = useAnswer(`/api/sessions/${session}/exchanges`, fresh);
  const { data } = answer;
  const requests = data?.requests ?? [];
  const wanted = requests.findIndex((item) => String(item.id) === route.value.options.exchange);
  const at = wanted < 0 ? requests.length - 1 : wanted;
  const chosen = requests[at];
  return html`<main>
    <aside aria-label="Requests of the session">
      ${!data && html`<${Pending} answer=${answer} what="the requests" />`}
      ${data && requests.length === 0 && html`<${Empty} title="No request was recorded" />`}
      <${TurnHeads} what="model" />
      <${VirtualList} id="exchanges" label="Requests" count=${requests.length} height=${ROW}
        selected=${at} onSelect=${(index) => setOption("exchange", String(requests[index].id))}
        row=${(index) => Row(requests[index], index)} />
    </aside>
    <div class="view">
      <p class="quiet">A session of another agent's: ${agent}. It can be looked at, and not gone on
        ${" "}with.</p>
      ${
        chosen &&
        html`<${Exchange} key=${chosen.id} session=${session} number=${chosen.id}
        at=${at} />`
      }
    </div>
  </main>`;
};
