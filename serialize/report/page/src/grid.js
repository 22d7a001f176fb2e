// A table of any number of rows, of which only those in sight have elements.

import { h, onceADraw, replace } from "./dom.js";

const ROW = 26;
// Browsers end at 17 to 33 million pixels. Beyond, the scroll bar moves in larger steps than the wheel.
const TALLEST = 12_000_000;
let grids = 0;

// A column: { key, title, help, width, text: bool, cell(row) -> string or nodes, share(row) -> 0 to 1, tone(row) -> class }.
export class Grid {
  constructor({ label, onSort, onSelect, onOpen, empty }) {
    this.id = "grid-" + ++grids;
    this.onSort = onSort;
    this.onSelect = onSelect;
    this.onOpen = onOpen;
    this.rows = new Uint32Array(0);
    this.top = 0;  // the first pixel in sight, if all rows were one below the other
    this.last = 0;
    this.selected = -1;
    this.height = 0;
    this.full = 0;
    this.pool = [];
    this.head = h("div", { class: "grid-head", role: "row" });
    this.body = h("div", { class: "grid-rows", role: "rowgroup" });
    this.spacer = h("div", { class: "grid-spacer" }, this.body);
    this.scroll = h("div", { class: "grid-scroll", role: "presentation", tabindex: "-1", onscroll: () => this.scrolled() }, this.spacer);
    this.none = h("p", { class: "grid-none", hidden: true }, empty || "No row matches.");
    this.element = h("div", { class: "grid", role: "grid", "aria-label": label, tabindex: "0", onkeydown: event => this.key(event) }, this.head, this.scroll, this.none);
    this.redraw = onceADraw(() => this.draw());
    new ResizeObserver(() => {
      this.measure();
      // Details that open below make room: the selected row stays in sight.
      if (this.selected >= 0) this.see(this.selected);
      this.redraw();
    }).observe(this.scroll);
  }
  measure() {
    this.height = this.scroll.clientHeight;
    const bar = this.scroll.offsetWidth - this.scroll.clientWidth;
    this.head.style.paddingRight = bar + "px";
    this.top = Math.min(this.top, this.most);
    if (this.onWidth) this.onWidth(this.scroll.clientWidth);
  }
  setColumns(columns, sortKey, descending) {
    this.columns = columns;
    const template = columns.map(column => (column.width ? column.width + "px" : "minmax(0, 1fr)")).join(" ");
    this.element.style.setProperty("--columns", template);
    replace(this.head, columns.map(column => h("div", { role: "columnheader", class: column.text ? "text" : "",
      "aria-sort": column.key === sortKey ? (descending ? "descending" : "ascending") : "none" },
      h("button", { type: "button", title: column.help, onclick: () => this.onSort(column) }, column.title,
        h("span", { class: "arrow", "aria-hidden": "true" }, column.key === sortKey ? (descending ? " ▾" : " ▴") : "")))));
    this.element.setAttribute("aria-colcount", columns.length);
    this.pool = [];
    this.body.replaceChildren();
    this.redraw();
  }
  setRows(rows, keepPlace) {
    const chosen = this.selected >= 0 ? this.rows[this.selected] : -1;
    this.rows = rows;
    this.element.setAttribute("aria-rowcount", rows.length + 1);
    this.full = rows.length * ROW;
    this.spacer.style.height = Math.min(this.full, TALLEST) + "px";
    this.selected = chosen >= 0 ? rows.indexOf(chosen) : -1;
    this.none.hidden = rows.length > 0;
    if (!keepPlace) this.goTo(0);
    this.redraw();
  }
  get most() {
    return Math.max(0, this.full - this.height);
  }
  goTo(top) {
    this.top = Math.max(0, Math.min(top, this.most));
    const room = Math.max(1, Math.min(this.full, TALLEST) - this.height);
    this.last = Math.round(this.full > TALLEST ? this.top / this.most * room : this.top);
    this.scroll.scrollTop = this.last;
    this.redraw();
  }
  scrolled() {
    const at = this.scroll.scrollTop, room = this.scroll.scrollHeight - this.height;
    if (this.full <= TALLEST) this.top = at;
    else if (at <= 0) this.top = 0;
    else if (at >= room - 1) this.top = this.most;
    else if (Math.abs(at - this.last) < 4 * this.height) this.top += at - this.last;
    else this.top = at / room * this.most;
    this.top = Math.max(0, Math.min(this.top, this.most));
    this.last = at;
    this.redraw();
  }
  rowElement(slot) {
    if (this.pool[slot]) return this.pool[slot];
    const cells = this.columns.map(column => {
      const fill = column.share ? h("span", { class: "bar" }) : null, text = h("span", { class: "cell-text" });
      const cell = h("div", { role: "gridcell", class: column.text ? "text" : "number" }, fill, text);
      return { cell, fill, text };
    });
    const element = h("div", { role: "row", class: "grid-row", onclick: () => this.select(entry.place),
      ondblclick: () => this.onOpen?.(this.rows[entry.place]) }, cells.map(part => part.cell));
    const entry = { element, cells, place: -1 };
    this.body.append(element);
    return this.pool[slot] = entry;
  }
  draw() {
    if (!this.columns) return;
    const first = Math.floor(this.top / ROW), many = Math.ceil(this.height / ROW) + 1;
    const end = Math.min(this.rows.length, first + many);
    this.body.style.transform = `translateY(${this.last - (this.top - first * ROW)}px)`;
    let slot = 0;
    for (let place = first; place < end; ++place, ++slot) {
      const entry = this.rowElement(slot), row = this.rows[place];
      entry.place = place;
      entry.element.hidden = false;
      entry.element.id = this.id + "-" + place;
      entry.element.setAttribute("aria-rowindex", place + 2);
      entry.element.setAttribute("aria-selected", place === this.selected);
      this.columns.forEach((column, c) => {
        const { cell, fill, text } = entry.cells[c];
        const content = column.cell(row);
        if (Array.isArray(content)) text.replaceChildren(...content);
        else text.textContent = content;
        if (fill) fill.style.width = Math.max(0, Math.min(100, 100 * column.share(row) || 0)) + "%";
        if (column.tone) cell.className = (column.text ? "text " : "number ") + column.tone(row);
      });
    }
    for (; slot < this.pool.length; ++slot) if (this.pool[slot]) this.pool[slot].element.hidden = true;
    if (this.selected >= 0) this.element.setAttribute("aria-activedescendant", this.id + "-" + this.selected);
    else this.element.removeAttribute("aria-activedescendant");
  }
  select(place) {
    if (!this.rows.length) return;
    if (!this.height) this.measure();
    this.selected = Math.max(0, Math.min(place, this.rows.length - 1));
    this.see(this.selected);
    this.redraw();
    this.onSelect?.(this.rows[this.selected]);
  }
  see(place) {
    const y = place * ROW;
    if (y < this.top) this.goTo(y);
    else if (y + ROW > this.top + this.height) this.goTo(y + ROW - this.height);
  }
  deselect() {
    this.selected = -1;
    this.redraw();
    this.onSelect?.(-1);
  }
  key(event) {
    const page = Math.max(1, Math.floor(this.height / ROW) - 1);
    const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity };
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.tagName === "BUTTON") return;
    if (event.key in steps) {
      const from = this.selected < 0 ? Math.ceil(this.top / ROW) - (steps[event.key] > 0 ? 1 : 0) : this.selected;
      this.select(from + steps[event.key]);
    } else if (event.key === "Enter" && this.selected >= 0) this.onOpen?.(this.rows[this.selected]);
    else if (event.key === "Escape" && this.selected >= 0) this.deselect();
    else return;
    event.preventDefault();
    event.stopPropagation();
  }
}
