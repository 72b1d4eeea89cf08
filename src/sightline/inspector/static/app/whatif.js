// The same turn under other rules: computed by the server with the functions the host uses.
import { useSignal } from "@preact/signals";
import { post } from "app/api";
import { count, dollars, html } from "app/html";
import { Picture } from "app/picture";
import { DriftNote } from "app/prompt";
import { route } from "app/route";

const number = (text) => (text === "" ? null : Number(text));

const Change = ({ name, before, after, show = count }) => html`<tr><th scope="row">${name}</th>
  <td>${show(before)}</td><td>${show(after)}</td></tr>`;

export const WhatIf = ({ data, choices }) => {
  const { session, turn, request } = route.value;
  const outcome = useSignal(/** @type {any} */ ({ data: null, error: "" }));
  const run = async (event) => {
    event.preventDefault();
    const form = new FormData(event.target);
    const slots = {};
    const slot = form.get("slot");
    if (slot) {
      slots[slot] = Object.fromEntries(
        ["max_ratio", "min_tokens", "priority"]
          .map((key) => [key, number(form.get(key))])
          .filter(([, value]) => value !== null),
      );
    }
    const body = {
      budget: number(form.get("budget")),
      window: number(form.get("window")),
      slack: number(form.get("slack")),
      strategy: form.get("strategy") || null,
      model: form.get("model") || null,
      slots,
    };
    try {
      outcome.value = {
        data: await post(`/api/sessions/${session}/turns/${turn}/${request}/whatif`, body),
        error: "",
      };
    } catch (error) {
      outcome.value = { data: null, error: error.message };
    }
  };
  const other = outcome.value.data;
  return html`<section aria-label="What if">
    <form class="whatif" aria-label="Change the rules" onSubmit=${run}>
      <label>budget <input name="budget" type="number" min="1"
        placeholder=${data.receipt.budget} /></label>
      <label>window <input name="window" type="number" min="0" placeholder="groups" /></label>
      <label>slack <input name="slack" type="number" min="0" placeholder="groups" /></label>
      <label>strategy <select name="strategy"><option value="">as it was</option>
        ${choices.strategies.map((name) => html`<option key=${name}>${name}</option>`)}
        </select></label>
      <label>model <input name="model" placeholder=${data.model} list="models" /></label>
      <datalist id="models">
        ${choices.models.map((name) => html`<option key=${name} value=${name} />`)}
      </datalist>
      <fieldset><legend>one slot</legend>
        <label>slot <select name="slot"><option value="">none</option>
          ${data.receipt.slots.map((line) => html`<option key=${line.name}>${line.name}</option>`)}
          </select></label>
        <label>max_ratio <input name="max_ratio" type="number" min="0" max="1" step="any" /></label>
        <label>min_tokens <input name="min_tokens" type="number" min="0" /></label>
        <label>priority <input name="priority" type="number" /></label>
      </fieldset>
      <button>Assemble</button>
    </form>
    ${outcome.value.error && html`<p class="error" role="alert">${outcome.value.error}</p>`}
    ${
      other &&
      html`<div>
      <p class="quiet">laid out by <b>${other.strategy}</b></p>
      ${
        other.notes.length > 0 &&
        html`<ul class="notes" aria-label="What to know about this">
        ${other.notes.map((note) => html`<li key=${note} class="warning">${note}</li>`)}</ul>`
      }
      <table class="compare"><caption>What would change</caption>
        <thead><tr><th scope="col"></th><th scope="col">recorded</th>
          <th scope="col">what if</th></tr></thead>
        <tbody>
          <${Change} name="prompt tokens" before=${data.receipt.total}
            after=${other.receipt.total} />
          <${Change} name="messages" before=${data.messages.length}
            after=${other.messages.length} />
          <${Change} name="reused of the request before"
            before=${data.drift?.common_tokens ?? 0} after=${other.drift?.common_tokens ?? 0} />
          <${Change} name="price of the prompt, uncached"
            before=${data.price_usd} after=${other.price_usd} show=${dollars} />
        </tbody></table>
      <${DriftNote} drift=${other.against_recorded} label="Against the recorded request" />
      <h3>As configuration</h3><pre tabindex="0" aria-label="Configuration">${other.config}</pre>
      <${Picture} data=${other} /></div>`
    }
  </section>`;
};
