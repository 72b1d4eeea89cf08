// What a request did not show the model, each thing with the rule that kept it out.
import { useAnswer } from "app/api";
import { count, html } from "app/html";
import { Empty, Pending } from "app/notice";
import { address, route } from "app/route";

const HEADS = ["what", "how much", "rule", "what if"];

const inWords = (wish) =>
  Object.entries(wish)
    .filter(([key]) => key !== "slack")
    .map(([key, value]) => (key === "of" ? `slot ${value}` : `${key} ${count(value)}`))
    .join(", ");

const WhatIf = ({ wish }) =>
  Object.keys(wish).length > 0 &&
  html`<a href=${address({ view: "whatif", options: wish })}>${inWords(wish)}?</a>`;

const Row = (item, at) => html`<tr key=${at}>
  <th scope="row" dir="auto">${
    item.turn === null
      ? item.what
      : html`<a href=${address({ turn: item.turn, request: 1, options: {} })}>${item.what}</a>`
  }</th>
  <td>${item.amount}</td><td dir="auto">${item.rule}</td>
  <td><${WhatIf} wish=${item.wish} /></td></tr>`;

export const UnseenView = ({ fresh }) => {
  const { session, turn, request } = route.value;
  const path = `/api/sessions/${session}/turns/${turn}/${request}/unseen`;
  const answer = useAnswer(path, fresh);
  const { data } = answer;
  return html`<section aria-label="Not seen">
    ${!data && html`<${Pending} answer=${answer} what="what was not seen" />`}
    ${data?.note && html`<p class="quiet">${data.note}</p>`}
    ${
      data?.note &&
      data.unseen.length === 0 &&
      html`<${Empty} title="Nothing is known to be missing" />`
    }
    ${
      data?.unseen.length === 0 &&
      !data.note &&
      html`<${Empty} title="The model saw everything there was">No turn, message, result or node
        ${" "}was left out of this request, and no app.<//>`
    }
    ${
      data?.unseen.length > 0 &&
      html`<div class="wide"><table class="words">
      <caption>${count(data.unseen.length)} not seen by the model in this request</caption>
      <thead><tr>${HEADS.map((head) => html`<th scope="col" key=${head}>${head}</th>`)}</tr></thead>
      <tbody>${data.unseen.map(Row)}</tbody></table></div>`
    }
  </section>`;
};
