// A list of any length: only what can be seen is in the document. One row is `height` pixels.
import { useEffect, useRef } from "preact/hooks";
import { useSignal } from "@preact/signals";
import { html } from "app/html";

const MARGIN = 8;

export const VirtualList = ({ label, items, height, selected, onSelect, row, id }) => {
  const box = useRef(null);
  const seen = useSignal({ top: 0, size: 600 });
  const look = () => {
    if (!box.current) return; // an observer may still speak after the list is gone
    const { scrollTop, clientHeight } = box.current;
    seen.value = { top: scrollTop, size: clientHeight || 600 };
  };
  useEffect(() => {
    look();
    const observer = new ResizeObserver(look);
    observer.observe(box.current);
    return () => observer.disconnect();
  }, []);
  useEffect(() => {
    if (selected < 0) return;
    const { scrollTop, clientHeight } = box.current;
    const at = selected * height;
    if (at < scrollTop) box.current.scrollTop = at;
    else if (at + height > scrollTop + clientHeight) box.current.scrollTop = at + height - clientHeight;
  }, [selected, items.length]);
  const first = Math.max(0, Math.floor(seen.value.top / height) - MARGIN);
  const last = Math.min(items.length, Math.ceil((seen.value.top + seen.value.size) / height) + MARGIN);
  const rowId = (index) => `${id}-${index}`;
  return html`<div
    class="vlist" role="listbox" tabindex="0" aria-label=${label} ref=${box} onScroll=${look}
    aria-activedescendant=${selected >= first && selected < last ? rowId(selected) : undefined}>
    <div class="vspace" style=${{ height: `${items.length * height}px` }}>
      ${items.slice(first, last).map((item, offset) => {
        const index = first + offset;
        return html`<div
          key=${index} id=${rowId(index)} class="vrow" role="option"
          aria-selected=${index === selected} aria-setsize=${items.length} aria-posinset=${index + 1}
          style=${{ top: `${index * height}px`, height: `${height}px` }}
          onClick=${() => onSelect(index)}>${row(item, index)}</div>`;
      })}
    </div>
  </div>`;
};
