// What became of a turn, in four verdicts: outcome, cache, cost, what changed.
import { useAnswer } from "app/api";
import { html } from "app/html";
import { Problem, VerdictsRoom } from "app/notice";
import { Excerpt } from "app/prompt";
import { address, route } from "app/route";

const Card = ({ name, verdict, children = null }) => html`<article
  class=${`verdict ${verdict.tone}`} aria-label=${name}>
  <h3>${name}</h3>
  <p class="title"><b>${verdict.title}</b></p>
  ${verdict.lines.map((line, at) => html`<p key=${at} dir="auto">${line}</p>`)}
  ${children}
</article>`;

const Cards = ({ data }) => html`<div class="verdicts">
  <${Card} name="outcome" verdict=${data.outcome}>
    ${
      data.answer &&
      html`<blockquote dir="auto" tabindex="0" aria-label="The answer">${data.answer}</blockquote>
      <a href=${address({ view: "conversation", options: {} })}>all that was said</a>`
    }
  <//>
  <${Card} name="cache" verdict=${data.cache}>
    ${
      (data.cache.loss?.before || data.cache.loss?.now) &&
      html`<details><summary>before and now</summary>
      <${Excerpt} label="before" before="" text=${data.cache.loss.before} />
      <${Excerpt} label="now" before="" text=${data.cache.loss.now} /></details>`
    }
  <//>
  <${Card} name="cost" verdict=${data.cost} />
  <${Card} name="changed" verdict=${data.changed} />
</div>`;

export const TurnHeader = ({ turn, fresh }) => {
  const { session, request } = route.value;
  const path = `/api/sessions/${session}/turns/${turn.turn}/${request}/verdicts`;
  const answer = useAnswer(turn.requests ? path : null, fresh);
  const { data, error, retry } = answer;
  const sent = data && [data.sent_at, data.model, data.address, `request ${request}`];
  return html`<section class="about-turn" aria-label="The turn">
    <h2 dir="auto">${turn.turn} · ${turn.text}</h2>
    ${sent && html`<p class="quiet">${sent.filter(Boolean).join(" · ")}</p>`}
    ${
      data
        ? html`<${Cards} data=${data} />`
        : html`<p class="quiet">${turn.status} ${turn.reason}
          ${turn.requests === 0 && " · nothing that was sent is recorded"}
          </p>`
    }
    ${!data && !error && turn.requests > 0 && html`<${VerdictsRoom} />`}
    ${error && html`<${Problem} error=${error} retry=${retry} />`}
  </section>`;
};
