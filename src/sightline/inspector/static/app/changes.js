// What changed since the request before, or between any two: by slot, message, path and word.
import { useAnswer } from "app/api";
import { differencesOf, totalsOf } from "app/differences";
import { TextField } from "app/field";
import { count, html, many } from "app/html";
import { colourOf } from "app/map";
import { Empty, Pending, Problem } from "app/notice";
import { DriftNote } from "app/prompt";
import { route, setOption } from "app/route";

const Piece = ({ piece }) => {
  if (piece.kind === "removed") return html`<del>${piece.text}</del>`;
  if (piece.kind === "added") return html`<ins>${piece.text}</ins>`;
  return html`<span>${piece.text}</span>`;
};

const Hunk = ({ hunk }) => html`<div class="hunk">
  ${hunk.path && html`<code class="path">${hunk.path}</code>`}
  <pre tabindex="0">${hunk.pieces.map(
    (piece, at) => html`<${Piece} key=${at} piece=${piece} />`,
  )}</pre>
</div>`;

const SAME_WORDS = "The words are the same: a file, an id or a signature differs.";
const MOVES = { moved: "moved here", left: "moved elsewhere" };
const MOST_SHOWN = 200; // characters of a message that is the same in another place

const Change = ({ change }) => {
  if (change.kind === "same")
    return html`<li class="quiet">unchanged: ${many(change.count, "message")}</li>`;
  if (MOVES[change.kind])
    return html`<li class="line quiet"><b>${MOVES[change.kind]}</b> ${change.role}:
      ${" "}${change.text.slice(0, MOST_SHOWN)}</li>`;
  const piece = { kind: change.kind, text: change.text };
  const hunks = change.hunks ?? [{ path: "", pieces: [piece] }];
  return html`<li><b>${change.kind}</b> <span class="quiet">${change.role}</span>
    ${hunks.length === 0 && html`<p class="quiet">${SAME_WORDS}</p>`}
    ${hunks.map((hunk, at) => html`<${Hunk} key=${at} hunk=${hunk} />`)}</li>`;
};

const isSame = ({ changes }) => changes.every((change) => change.kind === "same");

const Slots = ({ slots }) =>
  html`<div>${slots
    .filter((slot) => !isSame(slot))
    .map(
      (slot) => html`<section key=${slot.name} aria-label=${`Changes of ${slot.name}`}>
    <h2><i class=${`dot ${colourOf(slot.name)}`}></i>${slot.name}</h2>
    <ul class="changes">${slot.changes.map(
      (change, at) => html`<${Change} key=${at} change=${change} />`,
    )}</ul></section>`,
    )}</div>`;

const Between = ({ before, after, drift, label }) => {
  const slots = differencesOf(before, after);
  const { removed, added, changed, moved } = totalsOf(slots);
  const same = slots.filter(isSame).map((slot) => slot.name);
  return html`<div>
    <p class="lead"><b>− ${count(removed)}, + ${count(added)}, ${count(changed)} changed,
      ${" "}${count(moved)} moved</b></p>
    ${same.length > 0 && html`<p class="quiet">the same: ${same.join(", ")}</p>`}
    <${Slots} slots=${slots} />
    ${
      drift &&
      html`<details><summary>the first byte</summary>
      <${DriftNote} drift=${drift} label=${label} /></details>`
    }
  </div>`;
};

export const ChangesView = ({ data }) => {
  const { session, turn, request, options } = route.value;
  const wanted = options.with ?? data.before;
  const [, otherTurn, otherRequest] = /^(\d+)\.(\d+)$/.exec(wanted ?? "") ?? [];
  const path = otherTurn ? `/api/sessions/${session}/turns/${otherTurn}/${otherRequest}` : null;
  const other = useAnswer(path);
  const label = `From ${wanted} to ${turn}.${request}`;
  return html`<section aria-label="Changes">
    <label>against request <${TextField} name="with" size="8" pattern="\\d+\\.\\d+"
      value=${wanted ?? ""} placeholder="turn.request"
      onChange=${(event) => setOption("with", event.target.value)} />
    </label>
    ${
      !wanted &&
      html`<${Empty} title="The first request to its model">There is nothing before it; name
        ${" "}another request to compare it with.<//>`
    }
    ${wanted && !path && html`<${Problem} error="Requests are named turn.request, like 3.1." />`}
    ${path && !other.data && html`<${Pending} answer=${other} what=${`request ${wanted}`} />`}
    ${
      other.data &&
      html`<${Between} key=${label} before=${other.data} after=${data} label=${label}
      drift=${wanted === data.before ? data.drift : null} />`
    }
  </section>`;
};
