// The same turn, or all of them, under other rules: computed by the server as the host does it.
import { useSignal } from "@preact/signals";
import { isExport, post, useAnswer } from "app/api";
import { TextField } from "app/field";
import { count, dollars, html } from "app/html";
import { colourOf } from "app/map";
import { Empty, Pending, Problem } from "app/notice";
import { Picture } from "app/picture";
import { DriftNote } from "app/prompt";
import { route, setOption } from "app/route";
import { isNothing, sideBySide, wishesOf } from "app/wishes";
import { useEffect, useRef } from "preact/hooks";

const PAUSE_MS = 300; // after the last key, before it is tried

const NOTHING = { body: "", data: null, error: "" };

// What the server says to the wishes in the address, asked anew when they change; what it said to
// others is not shown.
export const useOutcome = (path, wishes) => {
  const outcome = useSignal(/** @type {any} */ (NOTHING));
  const body = `${path} ${JSON.stringify(wishes)}`;
  useEffect(() => {
    let wanted = true;
    const show = (data, error) => {
      if (wanted) outcome.value = { body, data, error };
    };
    if (path !== null)
      post(path, wishes).then(
        (data) => show(data, ""),
        (error) => show(null, error.message),
      );
    return () => {
      wanted = false;
    };
  }, [body]);
  return outcome.value.body === body ? outcome.value : NOTHING;
};

const Field = ({ name, ...rest }) => {
  const timer = useRef(0);
  const change = (event) => {
    const { value } = event.target;
    clearTimeout(timer.current);
    timer.current = setTimeout(() => setOption(name, value), PAUSE_MS);
  };
  return html`<label>${name} <${TextField} name=${name} value=${route.value.options[name] ?? ""}
    onInput=${change} ...${rest} /></label>`;
};

export const Choice = ({ name, none, values }) => html`<label>${name} <select name=${name}
  value=${route.value.options[name] ?? ""}
  onChange=${(event) => setOption(name, event.target.value)}>
  <option value="">${none}</option>
  ${values.map((value) => html`<option key=${value}>${value}</option>`)}
</select></label>`;

const Controls = ({ data, choices }) => html`<form class="whatif" aria-label="Change the rules"
  onSubmit=${(event) => event.preventDefault()}>
  <${Field} name="budget" type="number" min="1" placeholder=${data.receipt.budget} />
  <${Field} name="window" type="number" min="0" placeholder="groups" />
  <${Field} name="slack" type="number" min="0" placeholder="groups" />
  <${Field} name="results" type="number" min="0" placeholder="characters" />
  <${Field} name="tail" type="number" min="1" placeholder="tokens" />
  <${Choice} name="strategy" none="as it was" values=${choices.strategies} />
  <${Field} name="model" placeholder=${data.model} list="models" />
  <datalist id="models">
    ${choices.models.map((name) => html`<option key=${name} value=${name} />`)}
  </datalist>
  <fieldset><legend>one slot</legend>
    <${Choice} name="of" none="none" values=${data.receipt.slots.map((line) => line.name)} />
    <${Field} name="max_ratio" type="number" min="0" max="1" step="any" />
    <${Field} name="min_tokens" type="number" min="0" />
    <${Field} name="priority" type="number" />
  </fieldset>
  <${Choice} name="over" none="this turn" values=${["all turns"]} />
</form>`;

const difference = (before, after) => {
  if (before === null || after === null) return "";
  const sign = after > before ? "+" : "−";
  return after === before ? "same" : `${sign}${count(Math.abs(after - before))}`;
};

export const Change = ({ name, before, after, show = count, dot = "" }) => html`<tr>
  <th scope="row">${dot && html`<i class=${`dot ${dot}`}></i>`}${name}</th>
  <td>${show(before)}</td><td>${show(after)}</td>
  <td>${show === count ? difference(before, after) : ""}</td></tr>`;

export const Heads = () => html`<thead><tr><th scope="col">what</th><th scope="col">recorded</th>
  <th scope="col">what if</th><th scope="col">difference</th></tr></thead>`;

export const Notes = ({ notes }) =>
  notes.length > 0 &&
  html`<ul class="notes" aria-label="What to know about this">
  ${notes.map((note) => html`<li key=${note} class="warning">${note}</li>`)}</ul>`;

const Configuration = ({ text }) => html`<h2>As configuration</h2>
  <pre tabindex="0" aria-label="Configuration">${text}</pre>`;

const One = ({ data, other }) => html`<div>
  <p class="quiet">laid out by <b>${other.strategy}</b></p>
  <${Notes} notes=${other.notes} />
  <table class="compare"><caption>What would change</caption><${Heads} />
    <tbody>
      ${sideBySide(data.receipt, other.receipt).map(
        ([name, before, after]) => html`<${Change} key=${name} name=${name} before=${before}
          after=${after} dot=${colourOf(name)} />`,
      )}
      <${Change} name="prompt tokens" before=${data.receipt.total} after=${other.receipt.total} />
      <${Change} name="messages" before=${data.messages.length} after=${other.messages.length} />
      <${Change} name="reusable of the request before"
        before=${data.drift?.common_tokens ?? 0} after=${other.drift?.common_tokens ?? 0} />
      <${Change} name="price of the prompt, uncached"
        before=${data.price_usd} after=${other.price_usd} show=${dollars} />
    </tbody></table>
  <${Configuration} text=${other.config} />
  <details><summary>The prompt that it would be</summary>
    <${DriftNote} drift=${other.against_recorded} label="Against the recorded request" />
    <${Picture} data=${other} /></details></div>`;

const All = ({ data }) => html`<div>
  <p class="lead" role="status"><b>${data.summary}</b></p>
  <${Notes} notes=${data.notes} />
  <table class="compare"><caption>What would change in all turns</caption><${Heads} />
    <tbody>
      <${Change} name="prompt tokens" before=${data.tokens[0]} after=${data.tokens[1]} />
      <${Change} name="tokens of history" before=${data.history[0]} after=${data.history[1]} />
      <${Change} name="price of the prompts, uncached"
        before=${data.usd[0]} after=${data.usd[1]} show=${dollars} />
    </tbody></table>
  <${Configuration} text=${data.config} />
</div>`;

export const WhatIf = ({ data }) => {
  const { session, turn, request, options } = route.value;
  const wishes = wishesOf(options);
  const all = options.over === "all turns";
  const root = `/api/sessions/${session}`;
  const path = all ? `${root}/whatif` : `${root}/turns/${turn}/${request}/whatif`;
  const asks = !isNothing(wishes) && !isExport;
  const outcome = useOutcome(asks ? path : null, wishes);
  const choices = useAnswer(isExport ? null : "/api/choices");
  if (isExport)
    return html`<section aria-label="What if">
      <${Empty} title="An export cannot compute">Open the session in the inspector:
        ${" "}<code>sightline inspect</code>.<//></section>`;
  return html`<section aria-label="What if">
    ${
      choices.data
        ? html`<${Controls} data=${data} choices=${choices.data} />`
        : html`<${Pending} answer=${choices} what="the rules" />`
    }
    ${outcome.error && html`<${Problem} error=${outcome.error} />`}
    ${asks && !outcome.body && html`<p class="notice waiting quiet" role="status">Computing…</p>`}
    ${
      isNothing(wishes) &&
      html`<${Empty} title="Change a rule: see what it does">Nothing is sent; the turn is composed
        ${" "}again, as the host does it.<//>`
    }
    ${all && outcome.data?.tokens && html`<${All} data=${outcome.data} />`}
    ${!all && outcome.data?.receipt && html`<${One} data=${data} other=${outcome.data} />`}
  </section>`;
};
