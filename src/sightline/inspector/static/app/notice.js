// What stands where something is on its way, is not there, or could not be had.
import { html } from "app/html";

export const Empty = ({ title, children = null }) => html`<div class="notice">
  <p><b>${title}</b></p>${children && html`<p class="quiet">${children}</p>`}</div>`;

export const Problem = ({ error, retry = null }) => html`<div class="notice" role="alert">
  <p class="error">${error}</p>
  ${retry && html`<button type="button" onClick=${retry}>Try again</button>`}</div>`;

/** An answer that has not come: it is waited for, or there was a problem. */
export const Pending = ({ answer, what }) =>
  answer.error
    ? html`<${Problem} error=${answer.error} retry=${answer.retry} />`
    : html`<p class="notice waiting quiet" role="status">Loading ${what}…</p>`;

// Where the verdicts will stand, so that what is below them stays where it is.
export const VerdictsRoom = () => html`<div class="verdicts" aria-hidden="true">
  ${[1, 2, 3, 4].map((at) => html`<div key=${at} class="verdict"></div>`)}</div>`;

// Where a turn's header will stand.
export const TurnRoom = () => html`<div class="about-turn" aria-hidden="true">
  <h2>…</h2><p>…</p><${VerdictsRoom} />
</div>`;
