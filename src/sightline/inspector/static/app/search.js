// Everything that was said, in any session, found by its words.
import { isExport, useAnswer } from "app/api";
import { Dialog } from "app/dialog";
import { TextField } from "app/field";
import { html } from "app/html";
import { Empty, Pending, Problem } from "app/notice";
import { address, go, route } from "app/route";
import { useLayoutEffect, useRef } from "preact/hooks";

const PAUSE_MS = 200; // after the last key, before a text is looked for

const placeOf = (item) =>
  address({ session: item.session, turn: item.turn, request: 1, find: null, options: {} });

const Hit = (item) => html`<li key=${`${item.kind}${item.id}`}>
  ${
    item.turn === undefined
      ? html`<b>${item.kind} ${item.id}</b> ${item.text}`
      : html`<a href=${placeOf(item)}><b>session ${item.session}, turn ${item.turn}</b>
        ${" "}<span class="tag">${item.kind}</span> ${item.text}</a>`
  }</li>`;

export const useFound = (text) =>
  useAnswer(text.trim() ? `/api/search?q=${encodeURIComponent(text)}` : null);

/** What was found for a text; nothing while there is none. */
export const Found = ({ text, answer }) => {
  if (!text.trim()) return null;
  const { data } = answer;
  if (!data) return html`<${Pending} answer=${answer} what="what was said" />`;
  if (data.problem) return html`<${Problem} error=${data.problem} />`;
  if (data.found.length === 0)
    return html`<${Empty} title="Nothing was found">All of the words must be in one message or
      ${" "}memo. ${data.note}<//>`;
  return html`<ul class="found" aria-label="Found">${data.found.map(Hit)}</ul>
    ${data.note && html`<p class="quiet">${data.note}</p>`}`;
};

export const SearchDialog = () => {
  const { find } = route.value;
  const text = find ?? "";
  const answer = useFound(text);
  const box = useRef(/** @type {HTMLInputElement | null} */ (null));
  const timer = useRef(0);
  useLayoutEffect(() => box.current?.focus(), []);
  const look = (event) => {
    const text = event.target.value;
    clearTimeout(timer.current);
    timer.current = setTimeout(() => go({ find: text }, { replace: true }), PAUSE_MS);
  };
  const close = () => {
    clearTimeout(timer.current);
    go({ find: null }, { replace: true });
  };
  const first = answer.data?.found.find((item) => item.turn !== undefined);
  const land = (event) => {
    event.preventDefault();
    if (first) location.hash = placeOf(first);
  };
  return html`<${Dialog} label="Search" kind="search" onClose=${close}>
    <form role="search" onSubmit=${land}>
      <label>Search everything said
        ${" "}<${TextField} box=${box} type="search" value=${text} onInput=${look} /></label>
      ${" "}<button type="button" onClick=${close}>Close</button>
    </form>
    ${isExport && html`<${Empty} title="An export cannot be searched">Open the inspector.<//>`}
    ${!isExport && html`<${Found} text=${text} answer=${answer} />`}
  <//>`;
};
