// What was said and done in a turn: words, reasoning, calls with their results, as they happen.
import { useSignal } from "@preact/signals";
import { news, useAnswer } from "app/api";
import { html, seconds } from "app/html";
import { Empty, Pending } from "app/notice";
import { doing, stepsOf } from "app/steps";
import { useEffect } from "preact/hooks";

const TICK_MS = 500;
const ENDED = ["complete", "tool_call"];

const Tag = ({ name }) => html`<span class=${`tag ${name}`}>${name}</span>`;

const Call = ({ step }) => html`<div class="call">
  <p><b>${step.name}</b>
    ${step.state && html`${" "}<span class="tag running">${step.state}</span>`}</p>
  <pre tabindex="0" aria-label=${`Parameters of ${step.name}`}>${step.params}</pre>
  ${step.decided.map((words, at) => html`<p key=${at} class="decided" dir="auto">${words}</p>`)}
  ${
    step.result &&
    html`<pre tabindex="0" class=${step.result.error ? "error" : ""}
    aria-label=${`Result of ${step.name}`}>${step.result.text}</pre>`
  }
</div>`;

const Step = ({ step }) => {
  if (step.kind === "call") return html`<${Call} step=${step} />`;
  const words = html`<pre tabindex="0" class="said">${step.text}</pre>`;
  if (step.kind !== "reasoning") return words;
  return html`<details open=${step.status === "arriving"}><summary>reasoning</summary>
    ${words}</details>`;
};

// How long ago a moment was, said anew while the turn runs.
const Elapsed = ({ since }) => {
  const now = useSignal(Date.now());
  useEffect(() => {
    const timer = setInterval(() => {
      now.value = Date.now();
    }, TICK_MS);
    return () => clearInterval(timer);
  }, []);
  return html`<span class="figure">${seconds(Math.max(0, now.value - Date.parse(since)))}</span>`;
};

const Now = ({ steps, since }) => {
  const what = doing(steps);
  return html`<p role="status" class=${`now ${/approval/.test(what) ? "warning" : ""}`}>
    <span>${what}</span> · <${Elapsed} since=${since} /></p>`;
};

// What a turn that runs does now, wherever its conversation is not shown.
export const UnderWay = ({ session, turn, fresh }) => {
  const { data } = useAnswer(`/api/sessions/${session}/groups/${turn.group}`, fresh);
  if (!data) return null;
  const steps = stepsOf(data.messages, news.value.open, data.answers, data.pending);
  return html`<${Now} steps=${steps} since=${data.messages[0]?.created_at} />`;
};

export const Conversation = ({ session, turn, fresh }) => {
  const answer = useAnswer(`/api/sessions/${session}/groups/${turn.group}`, fresh);
  const { data } = answer;
  if (!data) return html`<${Pending} answer=${answer} what="the conversation" />`;
  const open = turn.status === "running" ? news.value.open : null;
  const steps = stepsOf(data.messages, open, data.answers, data.pending);
  return html`<section aria-label="Conversation">
    <ol class="said-and-done">${steps.map(
      (step, at) => html`<li key=${at} class=${step.who}>
      <p class="who"><b>${step.who}</b>
        ${ENDED.includes(step.status) || html`${" "}<${Tag} name=${step.status} />`}</p>
      <${Step} step=${step} /></li>`,
    )}</ol>
    ${
      steps.length === 0 && html`<${Empty} title=${data.note || "Nothing was said in this turn"} />`
    }
    ${
      turn.status === "running" &&
      html`<${Now} steps=${steps} since=${data.messages[0]?.created_at} />`
    }
  </section>`;
};
