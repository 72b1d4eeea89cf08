// What if another agent's request, or all of them, had been made otherwise: weighed by the server.

import { isExport } from "app/api";
import { dollars, html, many } from "app/html";
import { Empty, Problem } from "app/notice";
import { route } from "app/route";
import { Change, Choice, Heads, Notes, useOutcome } from "app/whatif";

const Outcome = ({ data }) => html`<div>
  <${Notes} notes=${data.notes} />
  <table class="compare">
    <caption>What would change in ${many(data.requests, "request")}</caption><${Heads} />
    <tbody>
      ${data.rows.map(
        ([name, before, after]) => html`<${Change} key=${name} name=${name} before=${before}
          after=${after} />`,
      )}
      <${Change} name="price of the prompts" before=${data.usd[0]} after=${data.usd[1]}
        show=${dollars} />
    </tbody></table>
  ${
    data.how.length > 0 &&
    html`<h2>How</h2>
    <pre tabindex="0" aria-label="How">${data.how.join("\n")}</pre>`
  }
</div>`;

export const AgentWhatIf = () => {
  const { session, turn, request, options } = route.value;
  const { tools = "", tail = "", over } = options;
  const root = `/api/sessions/${session}`;
  const path = over ? `${root}/whatif` : `${root}/turns/${turn}/${request}/whatif`;
  const asks = !isExport && Boolean(tools || tail);
  const outcome = useOutcome(asks ? path : null, { tools, tail });
  return html`<section aria-label="What if">
    ${
      isExport
        ? html`<${Empty} title="An export cannot compute">Open the session in the inspector:
          ${" "}<code>sightline inspect</code>.<//>`
        : html`<form class="whatif" aria-label="Change the requests"
          onSubmit=${(event) => event.preventDefault()}>
          <${Choice} name="tail" none="as it was" values=${["off", "whole"]} />
          <${Choice} name="tools" none="as they came" values=${["sorted"]} />
          <${Choice} name="over" none="this request" values=${["all requests"]} />
        </form>`
    }
    ${outcome.error && html`<${Problem} error=${outcome.error} />`}
    ${asks && !outcome.body && html`<p class="notice waiting quiet" role="status">Computing…</p>`}
    ${
      !isExport &&
      !asks &&
      html`<${Empty} title="Change a request: see what it saves">Nothing is sent; what it would
        ${" "}share with earlier ones is weighed.<//>`
    }
    ${outcome.data && html`<${Outcome} data=${outcome.data} />`}
  </section>`;
};
