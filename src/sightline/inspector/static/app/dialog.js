// A dialog over the page: focus stays in it and goes back to where it was, Escape closes it.
import { html } from "app/html";
import { useLayoutEffect, useRef } from "preact/hooks";

export const Dialog = ({ label, kind = "", onClose, children }) => {
  const box = useRef(/** @type {HTMLDialogElement | null} */ (null));
  useLayoutEffect(() => {
    const dialog = box.current;
    dialog?.showModal();
    return () => dialog?.close(); // HTML: only a dialog that is closed gives the focus back
  }, []);
  const cancel = (event) => {
    event.preventDefault();
    onClose();
  };
  return html`<dialog ref=${box} class=${`help ${kind}`} aria-label=${label} onCancel=${cancel}>
    ${children}</dialog>`;
};
