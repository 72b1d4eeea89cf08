// The durable record: groups, STATE through time, scratchpad, memos, search, verify, SQL.
import { useSignal } from "@preact/signals";
import { isExport, post, useAnswer } from "app/api";
import { TextField } from "app/field";
import { html, many, tokens } from "app/html";
import { VirtualList } from "app/list";
import { Empty, Pending, Problem } from "app/notice";
import { route, setOption } from "app/route";
import { Found, useFound } from "app/search";

const ROW = 44;
const LINE = 24;
const STATEMENT =
  "SELECT id, role, substr(content, 1, 80) AS content FROM messages ORDER BY id DESC LIMIT 20";

const ONLY_SENT = "Only those that stood in a request of this session: the ledger may have more.";

const GroupRow = (
  item,
) => html`<span><span class="line"><b>${item.id}</b> <span class="tag">${item.status}</span>
  ${" "}<span class="quiet">${many(item.messages, "message")},
    ${" "}${many(item.tokens, "token")}</span></span>
  <span class="line">${item.text}</span></span>`;

const States = ({ states }) => {
  const wanted = useSignal(-1);
  if (states.length === 0) return html`<${Empty} title="The model has written none yet" />`;
  const at = wanted.value < 0 || wanted.value >= states.length ? states.length - 1 : wanted.value;
  return html`<div>
    <${VirtualList} id="states" label="STATE through time" count=${states.length}
      height=${LINE} fit selected=${at}
      onSelect=${(index) => (wanted.value = index)}
      row=${(index) => html`<span class="line"><b>group ${states[index].group_id}</b>
        ${" "}<span class="quiet">${states[index].created_at}</span>
        ${" "}${states[index].text}</span>`} />
    <pre tabindex="0" aria-label="The chosen state">${states[at].text}</pre>
  </div>`;
};

const Group = ({ session, group, fresh }) => {
  const answer = useAnswer(`/api/sessions/${session}/groups/${group}`, fresh);
  const { data } = answer;
  if (!data) return html`<${Pending} answer=${answer} what="the messages" />`;
  return html`<ol class="messages" aria-label=${`Messages of group ${group}`}>${data.messages.map(
    (message) => html`<li key=${message.id}>
    <details open><summary><b>${message.role}</b> #${message.id}
      ${" "}<span class="tag">${message.status}</span>
      ${" "}<span class="quiet">${message.created_at} ·
      ${" "}${tokens(message.tokens, message.basis)} tokens</span></summary>
    ${message.parts.map(
      (part, at) => html`<div class="part" key=${at}><span class="tag">${part.kind}</span>
      <pre tabindex="0">${part.text}</pre></div>`,
    )}</details></li>`,
  )}</ol>`;
};

const Verify = () => {
  const answer = useSignal(/** @type {any} */ (null));
  const run = async () => {
    answer.value = { text: "checking…", kind: "" };
    try {
      const { ok, summary } = await post("/api/verify", {});
      answer.value = { text: summary, kind: ok ? "ok" : "bad" };
    } catch (error) {
      answer.value = { text: error.message, kind: "bad" };
    }
  };
  return html`<p><button type="button" onClick=${run}>Verify the ledger</button>
    ${" "}<span role="status" class=${`tag ${answer.value?.kind ?? ""}`}>
      ${answer.value?.text ?? "not checked"}</span></p>`;
};

const Cell = (value, column) =>
  html`<td key=${column}>${value === null ? "NULL" : String(value)}</td>`;

const Sql = ({ session }) => {
  const answer = useSignal(/** @type {any} */ (null));
  const run = async (event) => {
    event.preventDefault();
    answer.value = { isComing: true };
    try {
      answer.value = await post("/api/query", {
        sql: new FormData(event.target).get("sql"),
        session,
      });
    } catch (error) {
      answer.value = { error: error.message };
    }
  };
  const data = answer.value;
  return html`<form aria-label="SQL" onSubmit=${run}>
    <label>One read-only statement over this session
      <textarea name="sql" rows="3" spellcheck="false">${STATEMENT}</textarea></label>
    <button>Run</button>
    ${data?.isComing && html`<p class="notice waiting quiet" role="status">Running…</p>`}
    ${data?.error && html`<${Problem} error=${data.error} />`}
    ${
      data?.rows &&
      html`<div class="wide"><table><caption>${many(data.rows.length, "row")}</caption>
      <thead><tr>
        ${data.columns.map((name) => html`<th scope="col" key=${name}>${name}</th>`)}
      </tr></thead>
      <tbody>${data.rows.map((row, at) => html`<tr key=${at}>${row.map(Cell)}</tr>`)}</tbody>
      </table>
      ${data.note && html`<p class="quiet">${data.note}</p>`}</div>`
    }
  </form>`;
};

const Search = () => {
  const wanted = route.value.options.q ?? "";
  const answer = useFound(wanted);
  return html`<form role="search" aria-label="Search" onSubmit=${(event) => event.preventDefault()}>
    <label>Search what was said, and memos <${TextField} type="search" value=${wanted}
      onChange=${(event) => setOption("q", event.target.value)} /></label>
    <${Found} text=${wanted} answer=${answer} />
  </form>`;
};

const Memo = (memo) =>
  html`<li key=${memo.id}><span class="tag">${memo.tags}</span> ${memo.content}</li>`;

const NoGroups = ({ agent }) =>
  agent
    ? html`<${Empty} title="Another agent's session has no groups">What it sent and what was
        ${" "}answered are <code>exchanges</code>: the list of turns shows them.<//>`
    : html`<${Empty} title="This session has no groups of messages" />`;

export const LedgerView = ({ agent, fresh }) => {
  const { session } = route.value;
  const answer = useAnswer(`/api/sessions/${session}/ledger`, fresh);
  const { data } = answer;
  const chosen = useSignal(-1);
  if (!data) return html`<${Pending} answer=${answer} what="the ledger" />`;
  const group = data.groups[chosen.value];
  return html`<section aria-label="Ledger">
    <p class="lead"><code>${data.path}</code> ${many(data.groups.length, "group")}</p>
    ${!isExport && html`<${Verify} />`}
    ${!isExport && html`<${Search} />`}
    <h2>Groups</h2>
    ${
      data.groups.length === 0
        ? html`<${NoGroups} agent=${agent} />`
        : html`<${VirtualList} id="groups" label="Groups" count=${data.groups.length}
            height=${ROW} fit selected=${chosen.value}
            onSelect=${(index) => (chosen.value = index)}
            row=${(index) => GroupRow(data.groups[index])} />`
    }
    ${group && html`<${Group} session=${session} group=${group.id} fresh=${fresh} />`}
    <h2>STATE through time</h2>
    <${States} states=${data.states} />
    <h2>Scratchpad</h2>
    <pre tabindex="0" aria-label="Scratchpad">${data.scratchpad || "(empty)"}</pre>
    <h2>Memos</h2>
    ${isExport && html`<p class="quiet">${ONLY_SENT}</p>`}
    ${data.memos.length === 0 && html`<${Empty} title="No memo yet" />`}
    ${data.memos.length > 0 && html`<ul aria-label="Memos">${data.memos.map(Memo)}</ul>`}
    ${!isExport && html`<h2>SQL</h2><${Sql} session=${session} />`}
  </section>`;
};
