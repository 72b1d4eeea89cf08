// A field that shows a text of the address, and in which somebody may be typing another.
import { html } from "app/html";
import { useLayoutEffect, useRef } from "preact/hooks";

/**
 * It is written to when the text is another one, and not whenever it is drawn: what was typed
 * and not taken yet stays.
 */
export const TextField = ({ value, box = null, ...rest }) => {
  const own = useRef(/** @type {HTMLInputElement | null} */ (null));
  const field = box ?? own;
  useLayoutEffect(() => {
    if (field.current && field.current.value.trim() !== value) field.current.value = value;
  }, [value]);
  return html`<input ref=${field} ...${rest} />`;
};
