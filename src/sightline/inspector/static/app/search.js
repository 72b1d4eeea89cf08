// Everything that was said, in any session, found by its words.
import { isExport, useAnswer } from "app/api";
import { Dialog } from "app/dialog";
import { html } from "app/html";
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

export const Found = ({ data, error }) => html`<div>
  ${error && html`<p class="error" role="alert">${error}</p>`}
  ${data && html`<ul class="found" aria-label="Found">${data.found.map(Hit)}</ul>`}
  ${data?.found.length === 0 && html`<p class="quiet">${data.problem || "nothing"}</p>`}
</div>`;

export const SearchDialog = () => {
  const { find } = route.value;
  const { data, error } = useFound(find ?? "");
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
  const first = data?.found.find((item) => item.turn !== undefined);
  const land = (event) => {
    event.preventDefault();
    if (first) location.hash = placeOf(first);
  };
  return html`<${Dialog} label="Search" kind="search" onClose=${close}>
    <form role="search" onSubmit=${land}>
      <label>Search everything said
        ${" "}<input ref=${box} type="search" value=${find} onInput=${look} /></label>
      ${" "}<button type="button" onClick=${close}>Close</button>
    </form>
    ${isExport && html`<p class="quiet">An export cannot be searched: open the inspector.</p>`}
    ${!isExport && html`<${Found} data=${data} error=${error} />`}
  <//>`;
};
