// Which lines of a tree are seen while some are folded. Lines are numbered in document order, a
// folded line hides the `below` lines after it. No tree is needed for it, and no DOM.
export class Folds {
  // folded: Map of line → how many lines it hides
  constructor(total, folded = new Map()) {
    this.total = total;
    this.folded = folded;
    this.runs = []; // what is seen without a gap: [first line, its row]
    this.count = 0;
    let next = 0;
    for (const [line, below] of [...folded].sort(([one], [other]) => one - other)) {
      if (line < next) continue; // hidden itself
      this.show(next, line + 1);
      next = line + 1 + below;
    }
    this.show(next, total);
  }

  show(from, to) {
    if (to <= from) return;
    this.runs.push([from, this.count]);
    this.count += to - from;
  }

  // The last run that begins at or before a number, by line (0) or by row (1).
  run(number, by) {
    let low = 0;
    let high = this.runs.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.runs[middle][by] <= number) low = middle;
      else high = middle - 1;
    }
    return low;
  }

  lineAt(row) {
    const [line, first] = this.runs[this.run(row, 1)];
    return line + row - first;
  }

  // The row of a line; -1 while it is hidden.
  rowOf(line) {
    if (line < 0 || line >= this.total || this.runs.length === 0) return -1;
    const at = this.run(line, 0);
    const end = at + 1 < this.runs.length ? this.runs[at + 1][1] : this.count;
    const row = this.runs[at][1] + line - this.runs[at][0];
    return row < end ? row : -1;
  }

  fold(pairs) {
    return new Folds(this.total, new Map([...this.folded, ...pairs]));
  }

  unfold(line) {
    return new Folds(this.total, new Map([...this.folded].filter(([own]) => own !== line)));
  }

  // Unfold whatever hides a line.
  reveal(line) {
    return new Folds(
      this.total,
      new Map([...this.folded].filter(([own, below]) => line <= own || line > own + below)),
    );
  }
}
