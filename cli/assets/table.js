// A table of any length: only the rows in view are elements. Rows are one stop of the Tab key and titles another; arrows
// move inside.

const ROW_HEIGHT = 34;
let tables = 0;

class Table {
  // Columns have a title, a width, `value` to sort by, `cell` to show (default: `value`), and `number` for numeric ones.
  constructor(label, columns, open, order = null) {
    this.columns = columns;
    this.open = open;
    this.order = order ?? { column: -1, down: false };
    this.rows = [];
    this.active = -1;
    this.id = `table${(tables += 1)}`;
    this.head = h("div", { class: "head", role: "row", "aria-rowindex": 1 });
    this.body = h("div", { class: "rows", role: "rowgroup" });
    this.element = h(
      "div",
      { class: "table", role: "grid", tabindex: 0, "aria-label": label, onkeydown: (event) => this.key(event), onscroll: () => this.draw(), onfocus: () => this.focused() },
      this.head,
      this.body,
    );
    this.template = columns.map((column) => column.width).join(" ");
    // All rows have the same width.
    this.least = `${columns.reduce((sum, column) => sum + Number(/\d+/.exec(column.width)[0]), 0)}px`;
    this.head.style.gridTemplateColumns = this.template;
    this.head.style.minWidth = this.least;
    this.body.style.minWidth = this.least;
    this.titles = columns.map((column, place) => {
      const step = (event) => {
        const to = this.titles[place + ({ ArrowRight: 1, ArrowLeft: -1 }[event.key] ?? NaN)];
        if (!to) return;
        event.preventDefault();
        to.firstChild.focus();
      };
      const button = h("button", { type: "button", title: column.title, onclick: () => this.sortBy(place), onkeydown: step }, column.title);
      return h("div", { role: "columnheader", class: column.number ? "number" : "" }, button);
    });
    this.head.append(...this.titles);
    new ResizeObserver(() => this.draw()).observe(this.element);
  }

  // Limits the height in rows, for a table in a scrolling sheet.
  limit(rows) {
    this.element.style.height = `${Math.min(this.rows.length, rows) * ROW_HEIGHT + ROW_HEIGHT + 10}px`;
    return this;
  }

  show(rows) {
    this.given = rows;
    this.active = -1;
    this.element.scrollTop = 0;
    this.sort();
    return this;
  }

  // Updates the rows; the chosen one and the position stay.
  renew(rows, key) {
    const kept = this.rows[this.active];
    this.given = rows;
    this.active = -1;
    this.sort();
    if (kept) this.active = this.rows.findIndex((row) => key(row) === key(kept));
    this.drawn = "";
    this.draw();
  }

  sortBy(column) {
    const isSame = this.order.column === column;
    this.order = { column, down: isSame ? !this.order.down : Boolean(this.columns[column].number) };
    this.sort();
    say(`sorted by ${this.columns[column].title}, ${this.order.down ? "descending" : "ascending"}`);
  }

  sort() {
    const { column, down } = this.order;
    const kept = this.rows[this.active];
    this.rows = [...this.given];
    if (column >= 0) {
      const { value } = this.columns[column];
      const keys = new Map(this.rows.map((row) => [row, value(row)]));
      const compare = (left, right) => {
        const [a, b] = [keys.get(left), keys.get(right)];
        // Missing values are last in both directions.
        if (a === null || b === null || Number.isNaN(a) || Number.isNaN(b)) return (a === null || Number.isNaN(a)) - (b === null || Number.isNaN(b));
        const order = typeof a === "number" ? (a === b ? 0 : a < b ? -1 : 1) : collator.compare(a, b);
        return down ? -order : order;
      };
      this.rows.sort(compare);
    }
    this.titles.forEach((title, place) => {
      title.setAttribute("aria-sort", place !== column ? "none" : down ? "descending" : "ascending");
      title.firstChild.tabIndex = place === Math.max(column, 0) ? 0 : -1;
    });
    this.active = kept ? this.rows.indexOf(kept) : -1;
    this.element.setAttribute("aria-rowcount", this.rows.length + 1);
    this.body.style.height = `${this.rows.length * ROW_HEIGHT}px`;
    this.drawn = "";
    this.draw();
  }

  draw() {
    const height = this.element.clientHeight || 400;
    const first = Math.max(0, Math.floor(this.element.scrollTop / ROW_HEIGHT) - 4);
    const last = Math.min(this.rows.length, first + Math.ceil(height / ROW_HEIGHT) + 8);
    const key = `${first} ${last} ${this.active}`;
    if (key === this.drawn) return;
    this.drawn = key;
    const rows = [];
    for (let place = first; place < last; place += 1) rows.push(this.row(place));
    this.body.replaceChildren(...rows);
    if (this.active >= first && this.active < last) this.element.setAttribute("aria-activedescendant", `${this.id}-${this.active}`);
    else this.element.removeAttribute("aria-activedescendant");
  }

  row(place) {
    const row = this.rows[place];
    const cells = this.columns.map((column) => {
      const shown = (column.cell ?? column.value)(row);
      const parts = Array.isArray(shown) ? shown : [shown ?? ""];
      const text = parts.map((part) => part.textContent ?? part).join("");
      return h("span", { role: "gridcell", class: column.number ? "number" : column.class ?? "", title: text.length > 14 ? text : undefined }, ...parts);
    });
    const element = h(
      "div",
      { class: place === this.active ? "row active" : "row", role: "row", id: `${this.id}-${place}`, "aria-rowindex": place + 2, "aria-selected": place === this.active ? "true" : "false", onclick: () => this.choose(place) },
      cells,
    );
    element.style.gridTemplateColumns = this.template;
    element.style.top = `${place * ROW_HEIGHT}px`;
    return element;
  }

  choose(place) {
    this.active = place;
    this.draw();
    this.open(this.rows[place]);
  }

  // A press has chosen its row. Its element must not be replaced during the press.
  focused() {
    if (!this.element.matches(":focus-visible")) return;
    if (this.active < 0 && this.rows.length > 0) this.move(Math.floor(this.element.scrollTop / ROW_HEIGHT));
  }

  move(place) {
    this.active = Math.max(0, Math.min(this.rows.length - 1, place));
    const [top, bottom] = [this.active * ROW_HEIGHT, (this.active + 2) * ROW_HEIGHT];
    const { scrollTop, clientHeight } = this.element;
    if (top < scrollTop) this.element.scrollTop = top;
    else if (bottom > scrollTop + clientHeight) this.element.scrollTop = bottom - clientHeight;
    this.draw();
  }

  key(event) {
    if (event.target !== this.element || this.rows.length === 0) return;
    const page = Math.max(1, Math.floor(this.element.clientHeight / ROW_HEIGHT) - 2);
    const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity };
    if (event.key in steps) this.move(Math.max(-1e9, Math.min(1e9, this.active + steps[event.key])));
    else if (event.key === "Enter" && this.active >= 0) this.open(this.rows[this.active]);
    else if (event.key === "ArrowRight" || event.key === "ArrowLeft") this.element.scrollLeft += event.key === "ArrowRight" ? 60 : -60;
    else return;
    event.preventDefault();
  }
}
