// The context window in prompt order: slots, their messages, the boundary, what is free.
import { useSignal } from "@preact/signals";
import { count, html, share } from "app/html";
import { VirtualList } from "app/list";

const ROW = 24;
const COLOURS = 10;
const colourOf = (index) => `c${index % COLOURS}`;

const Block = ({ line, index, budget, lit, onLight }) => html`<button
  type="button" class=${`block ${colourOf(index)} ${lit ? "lit" : ""}`}
  style=${{ flexGrow: line.kept, flexBasis: 0 }}
  aria-label=${
    `${line.name}: ${count(line.kept)} of ${count(line.offered)} tokens, ` +
    `${share(line.kept, budget)} of the budget`
  }
  title=${line.name} onMouseEnter=${onLight} onFocus=${onLight}><span>${line.name}</span></button>`;

const Bar = ({ receipt, reserve, lit }) => {
  const fixed = receipt.overhead + receipt.tools;
  const shown = receipt.slots
    .map((line, index) => ({ line, index }))
    .filter(({ line }) => line.kept > 0);
  const stable = shown.filter(({ line }) => line.stability !== "volatile");
  const tail = shown.filter(({ line }) => line.stability === "volatile");
  const block = ({ line, index }) => html`<${Block}
    key=${index} line=${line} index=${index} budget=${receipt.budget}
    lit=${lit.value === index} onLight=${() => (lit.value = index)} />`;
  return html`<div class="bar" role="group" aria-label="The context window, in prompt order">
    ${
      fixed > 0 &&
      html`<span class="block fixed" style=${{ flexGrow: fixed, flexBasis: 0 }}
      title=${`tools and frame: ${count(fixed)} tokens`}><span>tools</span></span>`
    }
    ${stable.map(block)}
    <span class="boundary" role="separator"
      aria-label="boundary: the stable prefix ends here"></span>
    ${tail.map(block)}
    <span class="block free" style=${{ flexGrow: receipt.free, flexBasis: 0 }}
      title=${`free: ${count(receipt.free)} tokens`}><span>free</span></span>
    ${
      reserve > 0 &&
      html`<span class="block reserve" style=${{ flexGrow: reserve, flexBasis: 0 }}
      title=${`reserve for the answer: ${count(reserve)} tokens`}><span>reserve</span></span>`
    }
  </div>`;
};

const Limits = ({ line, budget }) => {
  const parts = [];
  if (line.minimum > 0) parts.push(`at least ${count(line.minimum)}`);
  if (line.maximum < budget) parts.push(`at most ${count(line.maximum)}`);
  return parts.join(", ");
};

const whatHappened = (line, rules) => {
  const cuts = [...new Set(line.messages.filter((m) => m.cut > 0).map((m) => m.rule))];
  if (cuts.length) return cuts.map((rule) => rules[rule] ?? rule).join("; ");
  return line.offered === 0 ? "empty" : "";
};

const Messages = ({ texts, lit }) => {
  const own = texts.filter((message) => message.slot_index === lit.value);
  const wanted = useSignal({ slot: -1, at: 0 });
  const at = wanted.value.slot === lit.value ? wanted.value.at : own.length - 1;
  const message = own[at];
  if (!message) return html`<p class="quiet">Nothing of it is in the prompt.</p>`;
  return html`<div>
    <${VirtualList} id="messages" label="Messages of the chosen slot" count=${own.length}
      height=${ROW} fit selected=${at}
      onSelect=${(index) => (wanted.value = { slot: lit.value, at: index })}
      row=${(index) => html`<span class="line"><b>${own[index].role}</b>
        ${" "}<span class="figure">${count(own[index].tokens)} tokens</span>
        <span class="quiet"> ${own[index].preview}</span></span>`} />
    <section aria-label="The chosen message">${message.parts.map(
      (part, index) => html`<div class="part" key=${index}>
      <span class="tag">${part.kind}</span><pre tabindex="0">${part.text}</pre></div>`,
    )}</section>
  </div>`;
};

export const Picture = ({ data }) => {
  const { receipt, messages, rules, reported } = data;
  const reserve = data.window_tokens - receipt.budget;
  const lit = useSignal(receipt.slots.findIndex((line) => line.kept > 0));
  const basis = receipt.provenance;
  return html`<section aria-label="Picture">
    <p class="lead"><b>${count(receipt.total)}</b> of ${count(receipt.budget)} tokens,
      ${" "}${count(receipt.free)} free <span class=${`tag ${basis}`}>${basis}</span>
      ${" "}<span class="quiet">by ${receipt.counter}; ${count(reserve)} of a window of
      ${" "}${count(data.window_tokens)} are reserve</span></p>
    ${
      reported &&
      html`<p class="quiet">${count(reported.prompt_tokens)} prompt tokens in this turn,
      ${" "}${count(reported.cached_tokens)} of them cached
      ${" "}<span class="tag reported">reported</span></p>`
    }
    <${Bar} receipt=${receipt} reserve=${reserve} lit=${lit} />
    <div class="wide"><table class="slots">
      <caption>Slots in prompt order</caption>
      <thead><tr><th scope="col">slot</th><th scope="col">offered</th><th scope="col">kept</th>
        <th scope="col">cut</th><th scope="col">messages</th><th scope="col">limits</th>
        <th scope="col">why</th></tr></thead>
      <tbody>${receipt.slots.map(
        (line, index) => html`<tr
        key=${index} class=${lit.value === index ? "lit" : ""}
        onMouseEnter=${() => (lit.value = index)}>
        <th scope="row"><button type="button" class="plain" aria-pressed=${lit.value === index}
          onClick=${() => (lit.value = index)}>
          <i class=${`dot ${colourOf(index)}`}></i>${line.name}</button>
          ${line.stability === "volatile" && html`<span class="tag">tail</span>`}</th>
        <td>${count(line.offered)}</td><td>${count(line.kept)}</td><td>${count(line.cut)}</td>
        <td>${line.messages.filter((m) => m.kept > 0).length}/${line.messages.length}</td>
        <td><${Limits} line=${line} budget=${receipt.budget} /></td>
        <td>${whatHappened(line, rules)}</td></tr>`,
      )}</tbody>
    </table></div>
    ${receipt.warnings.map(({ message }) => html`<p class="warning" key=${message}>${message}</p>`)}
    <h3>${receipt.slots[lit.value]?.name ?? ""}</h3>
    <${Messages} texts=${messages} lit=${lit} />
  </section>`;
};
