// The prompt on two scales: the window, and the slots in prompt order with their messages.
import { useSignal } from "@preact/signals";
import { count, html, percent, share } from "app/html";
import { VirtualList } from "app/list";
import { rowsOf, sumOf } from "app/map";
import { Empty } from "app/notice";
import { route, setOption } from "app/route";

const ROW = 24;

const Strip = ({ receipt, window, reserve }) => {
  const part = (tokens) => ({ width: `${percent(tokens, window)}%` });
  return html`<div class="strip" role="img"
    aria-label=${
      `The window of ${count(window)} tokens: prompt ${share(receipt.total, window)}, ` +
      `free ${share(receipt.free, window)}, reserve for the answer ${share(reserve, window)}`
    }><i class="prompt" style=${part(receipt.total)}></i>
    <i class="reserve" style=${part(reserve)}></i></div>`;
};

const Block = ({ row, total, chosen, onChoose }) => html`<button
  type="button" class=${`block ${row.colour} ${chosen ? "lit" : ""}`} disabled=${row.slot < 0}
  style=${{ flexGrow: row.kept, flexBasis: 0 }} title=${`${row.name}: ${count(row.kept)} tokens`}
  aria-label=${
    `${row.name}: ${count(row.kept)} of ${count(row.offered)} tokens, ` +
    `${share(row.kept, total)} of the prompt`
  }
  aria-pressed=${row.slot < 0 ? undefined : chosen} onClick=${onChoose}>
  <span>${row.name}:${" "}<small>${count(row.kept)}</small></span>
  <i class="same" style=${{ width: `${percent(row.reusable, row.kept)}%` }}></i></button>`;

const Bar = ({ rows, total, chosen, choose }) => {
  const shown = rows.filter((row) => row.kept > 0);
  const block = (row) => html`<${Block} key=${row.name} row=${row} total=${total}
    chosen=${chosen === row.slot && row.slot >= 0} onChoose=${() => choose(row)} />`;
  const volatile = (row) => row.line?.stability === "volatile";
  return html`<div class="bar" role="group" aria-label="The context window, in prompt order">
    ${shown.filter((row) => !volatile(row)).map(block)}
    <span class="boundary" role="separator"
      aria-label="boundary: the stable prefix ends here"></span>
    ${shown.filter(volatile).map(block)}
  </div>`;
};

const limitsOf = (line, budget) => {
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

const Row = ({ row, budget, rules, chosen, onChoose }) => {
  const { line } = row;
  const name = html`<i class=${`dot ${row.colour}`}></i>${row.name}`;
  return html`<tr class=${chosen ? "lit" : ""}>
    <th scope="row">${
      line
        ? html`<button type="button" class="plain" aria-pressed=${chosen}
            onClick=${onChoose}>${name}</button>`
        : name
    }
      ${line?.stability === "volatile" && html`<span class="tag">tail</span>`}</th>
    <td>${count(row.offered)}</td><td>${count(row.kept)}</td><td>${count(row.cut)}</td>
    <td>${count(row.same)}</td><td>${count(row.reusable)}</td>
    <td>${line && `${line.messages.filter((m) => m.kept > 0).length}/${line.messages.length}`}</td>
    <td>${line && limitsOf(line, budget)}</td>
    <td>${line && whatHappened(line, rules)}</td></tr>`;
};

const Messages = ({ texts, slot }) => {
  const own = texts.filter((message) => message.slot_index === slot);
  const wanted = useSignal({ slot: -1, at: 0 });
  const at = wanted.value.slot === slot ? wanted.value.at : own.length - 1;
  const message = own[at];
  if (!message) return html`<${Empty} title="Nothing of it is in the prompt" />`;
  return html`<div>
    <${VirtualList} id="messages" label="Messages of the chosen slot" count=${own.length}
      height=${ROW} fit selected=${at}
      onSelect=${(index) => (wanted.value = { slot, at: index })}
      row=${(index) => html`<span class="line"><b>${own[index].role}</b>
        ${" "}<span class="figure">${count(own[index].tokens)} tokens</span>
        <span class="quiet"> ${own[index].preview}</span></span>`} />
    <section aria-label="The chosen message">${message.parts.map(
      (part, index) => html`<div class="part" key=${index}>
      <span class="tag">${part.kind}</span><pre tabindex="0">${part.text}</pre></div>`,
    )}</section>
  </div>`;
};

const ESTIMATED = "Counted by a rule of thumb that learns from what the vendor reports.";

export const Picture = ({ data }) => {
  const { receipt, messages, rules, reported } = data;
  const { slots } = receipt;
  const reserve = data.window_tokens - receipt.budget;
  const rows = rowsOf(receipt, data.drift?.as_before);
  const wanted = slots.findIndex((line) => line.name === route.value.options.slot);
  const chosen = wanted < 0 ? slots.findIndex((line) => line.kept > 0) : wanted;
  const choose = (row) => setOption("slot", row.name);
  const basis = receipt.provenance;
  const reusable = sumOf(rows, "reusable");
  return html`<section aria-label="Picture">
    <p class="lead"><b>${count(receipt.total)}</b> of ${count(receipt.budget)} tokens,
      ${" "}${count(receipt.free)} free <span class=${`tag ${basis}`}
        title=${basis === "estimated" ? ESTIMATED : undefined}>${basis}</span>
      ${" "}<span class="quiet">by ${receipt.counter}; ${count(reserve)} of a window of
      ${" "}${count(data.window_tokens)} are reserve</span></p>
    ${
      reported &&
      html`<p class="quiet">${count(reported.prompt_tokens)} prompt tokens in this turn,
      ${" "}${count(reported.cached_tokens)} of them cached
      ${" "}<span class="tag reported">reported</span></p>`
    }
    <${Strip} receipt=${receipt} window=${data.window_tokens} reserve=${reserve} />
    <${Bar} rows=${rows} total=${receipt.total} chosen=${chosen} choose=${choose} />
    <p class="quiet">as in the request before: ${count(sumOf(rows, "same"))} ·
      ${" "}<i class="key same"></i> reusable, as both begin with it: ${count(reusable)}
      ${" "}<i class="key"></i> evaluated: ${count(receipt.total - reusable)}</p>
    <div class="wide"><table class="slots">
      <caption>Slots in prompt order</caption>
      <thead><tr><th scope="col">slot</th><th scope="col">offered</th><th scope="col">kept</th>
        <th scope="col">cut</th><th scope="col">as before</th><th scope="col">reusable</th>
        <th scope="col">messages</th>
        <th scope="col">limits</th><th scope="col">why</th></tr></thead>
      <tbody>${rows.map(
        (row, index) => html`<${Row} key=${index} row=${row} budget=${receipt.budget}
        rules=${rules} chosen=${row.slot >= 0 && row.slot === chosen}
        onChoose=${() => choose(row)} />`,
      )}</tbody>
      <tfoot><tr><th scope="row">prompt</th><td>${count(sumOf(rows, "offered"))}</td>
        <td>${count(sumOf(rows, "kept"))}</td><td>${count(sumOf(rows, "cut"))}</td>
        <td>${count(sumOf(rows, "same"))}</td><td>${count(reusable)}</td>
        <td>${count(messages.length)}</td><td></td><td></td></tr></tfoot>
    </table></div>
    ${receipt.warnings.map(({ message }) => html`<p class="warning" key=${message}>${message}</p>`)}
    ${slots[chosen] && html`<h2>${slots[chosen].name}</h2>`}
    <${Messages} texts=${messages} slot=${chosen} />
  </section>`;
};
