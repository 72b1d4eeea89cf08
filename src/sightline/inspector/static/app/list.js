// A list of any length: only what can be seen is in the document. One row is `height` pixels.

import { useSignal } from "@preact/signals";
import { html } from "app/html";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";

const MARGIN = 8;

// What differs between a list to choose from and a tree, in roles and in how rows are counted.
const KINDS = {
  listbox: {
    list: () => ({}),
    row: (index, count) => ({ role: "option", "aria-setsize": count, "aria-posinset": index + 1 }),
    cell: {},
    group: "presentation",
  },
  treegrid: {
    list: (count) => ({ "aria-rowcount": count }),
    row: (index) => ({ role: "row", "aria-rowindex": index + 1 }),
    cell: { role: "gridcell" },
    group: "rowgroup",
  },
};

// `row(index)` draws a row; `about(index)` adds attributes to it; `seen(first, last)` is told what
// is drawn; `keys` are more keys than those that go up and down. With `fit` a short list is short.
export const VirtualList = ({
  label,
  id,
  count,
  height,
  selected,
  onSelect,
  row,
  about,
  seen,
  keys = {},
  kind = "listbox",
  fit = false,
}) => {
  const box = useRef(/** @type {any} */ (null));
  const view = useSignal({ top: 0, size: 600 });
  const { size } = view.value;
  const isBegun = useRef(false);
  const look = () => {
    if (!box.current) return; // an observer may still speak after the list is gone
    const { scrollTop, clientHeight } = box.current;
    view.value = { top: scrollTop, size: clientHeight || 600 };
  };
  useEffect(() => {
    look();
    const observer = new ResizeObserver(look);
    observer.observe(box.current);
    return () => observer.disconnect();
  }, []);
  useLayoutEffect(() => {
    if (selected < 0 || selected >= count) return;
    const { scrollTop, clientHeight } = box.current;
    const at = selected * height;
    if (at < scrollTop) box.current.scrollTop = at;
    else if (at + height > scrollTop + clientHeight)
      box.current.scrollTop = at + height - clientHeight;
    if (box.current.scrollTop !== scrollTop) look(); // the event of it comes a frame later
  }, [selected, selected < count, size]);
  // Where it is not scrolled to yet, draw what will be seen, not the beginning before it.
  const top = isBegun.current ? view.value.top : Math.max(0, (selected + 1) * height - size);
  useLayoutEffect(() => {
    isBegun.current = count > 0;
  }, [count > 0]);
  const first = Math.max(0, Math.min(count - 1, Math.floor(top / height)) - MARGIN);
  const last = Math.min(count, Math.ceil((top + size) / height) + MARGIN);
  useEffect(() => seen?.(first, last));
  const screen = Math.max(1, Math.floor(size / height) - 1);
  const press = (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || count === 0) return;
    const to = (index) => onSelect(Math.max(0, Math.min(count - 1, index)));
    const moves = {
      ArrowDown: () => to(selected + 1),
      ArrowUp: () => to(selected - 1),
      Home: () => to(0),
      End: () => to(count - 1),
      PageDown: () => to(selected + screen),
      PageUp: () => to(selected - screen),
      ...keys,
    };
    if (!moves[event.key]) return;
    moves[event.key]();
    event.preventDefault();
  };
  const shape = KINDS[kind];
  const rowId = (index) => `${id}-${index}`;
  return html`<div
    class="vlist" role=${kind} tabindex="0" aria-label=${label} ref=${box}
    onScroll=${look} onKeyDown=${press}
    style=${fit ? { maxHeight: `${count * height + 2}px` } : undefined} ...${shape.list(count)}
    aria-activedescendant=${selected >= first && selected < last ? rowId(selected) : undefined}>
    <div class="vspace" role=${shape.group} style=${{ height: `${count * height}px` }}>
      ${Array.from({ length: Math.max(0, last - first) }, (_, at) => first + at).map(
        (index) => html`<div
          key=${index} id=${rowId(index)} class="vrow"
          ...${shape.row(index, count)} ...${about?.(index)}
          aria-selected=${index === selected}
          style=${{ top: `${index * height}px`, height: `${height}px` }}
          onClick=${() => onSelect(index)}><div ...${shape.cell}>${row(index)}</div></div>`,
      )}
    </div>
  </div>`;
};
