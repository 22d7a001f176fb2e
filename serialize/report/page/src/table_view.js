// A table with search, facets, order and details. Of two traces each measure has A, B and the difference.

import { MOST_ROWS, readTable, sortRows } from "./data.js";
import { dropdown, h, later, pause, replace } from "./dom.js";
import { Grid } from "./grid.js";
import { MEASURES } from "./measures.js";
import { clipped, count, LEVEL_NAMES, percent, plural, signed, time, visible } from "./text.js";

const CHUNK = 50_000;  // texts looked through before the browser may draw
const SHOWN_VALUES = 300;
const PRINTED = 200, PRINTED_COLUMNS = 6;

// Words, all of which must be there; or /a regular expression/. Null: everything matches.
function readQuery(text) {
  text = text.trim();
  if (!text) return null;
  const pattern = /^\/(.+?)\/?$/.exec(text);
  if (pattern) return { pattern: new RegExp(pattern[1], "i") };
  return { words: text.toLowerCase().split(/\s+/) };
}

export class TableView {
  constructor(app, { name, title, one, about, sort, links = [], beforeTable, plain = false, nameWidth = 0 }) {
    Object.assign(this, { app, name, title, one, about, links, beforeTable, plain, nameWidth });
    this.two = app.two;
    this.query = "";
    this.chosen = new Map();  // facet -> Set of values
    this.run = 0;
    this.wantedSort = sort;
    this.element = h("section", { class: "view", "aria-label": title });
  }

  async open(wish) {
    if (!this.table) {
      this.table = await readTable(this.app.head, this.name);
      if (this.table.rows > MOST_ROWS) throw new Error("a table has more than 2,097,152 rows");
      this.build();
    }
    if (wish) {
      this.query = wish.query || "";
      this.search.value = this.query;
      this.chosen.clear();
      for (const [facet, value] of Object.entries(wish.facets || {})) {
        const at = this.table.facets.find(each => each.name === facet)?.values.indexOf(value) ?? -1;
        if (at >= 0) this.chosen.set(facet, new Set([at]));
      }
    }
    await this.update();
    if (wish?.row !== undefined) this.select(wish.row);
  }

  build() {
    const { table } = this;
    this.measures = Object.keys(MEASURES).filter(name => table.has(name));
    // Null: in the order of the rows, which is that of their names.
    if (this.wantedSort && !table.has(this.wantedSort)) this.wantedSort = table.has("calls") ? "calls" : null;
    this.sortKey = this.wantedSort ? this.wantedSort + (this.two && this.table.has("b_" + this.wantedSort) ? " difference" : "") : null;
    this.descending = this.sortKey !== null;
    this.search = h("input", { type: "search", class: "search", "aria-label": "Search in " + this.title,
      placeholder: "Search: words, or /regular expression/", spellcheck: "false", autocomplete: "off" });
    const changed = later(() => {
      this.query = this.search.value;
      this.update();
    }, table.rows > 100_000 ? 200 : 50);
    this.search.addEventListener("input", changed);
    this.search.addEventListener("keydown", event => {
      if (event.key !== "ArrowDown" && event.key !== "Enter") return;
      event.preventDefault();
      this.grid.element.focus();
      if (this.grid.selected < 0) this.grid.select(0);
    });
    if (table.has("b_calls")) this.addChangeFacet();
    this.drops = table.facets.filter(facet => facet.values.filter(Boolean).length > 1).map(facet => this.facetDrop(facet));
    this.clear = h("button", { type: "button", hidden: true, onclick: () => {
      this.chosen.clear();
      this.search.value = this.query = "";
      this.update();
    } }, "Clear");
    this.status = h("p", { class: "status", role: "status" });
    this.grid = new Grid({ label: this.title, onSort: column => this.sortBy(column), onSelect: row => this.show(row),
      onOpen: row => this.follow(row) });
    this.grid.onWidth = width => this.fitColumns(width);
    this.detail = h("aside", { class: "detail", "aria-label": "Details", hidden: true });
    const left = table.spec.left_out;
    replace(this.element,
      h("div", { class: "toolbar" }, this.search, this.drops.map(drop => [drop.button, drop.panel]), this.clear),
      this.beforeTable?.(this),
      this.grid.element, this.detail, h("footer", {}, this.status,
        left ? h("p", { class: "left-out" }, this.leftOut(left)) : null,
        this.about ? h("p", { class: "about" }, this.about) : null));
  }
  leftOut(left) {
    const parts = [plural(left.rows, "row")];
    if (left.calls) parts.push(plural(left.calls, "call"));
    if (left.self_ns) parts.push(time(left.self_ns) + " self time");
    return "Left out of this page: " + parts.join(", ") + (left.why ? " (" + visible(left.why) + ")" : "") + ".";
  }

  addChangeFacet() {
    const { table } = this, { calls, b_calls } = table.columns;
    const column = new Uint8Array(table.rows);
    for (let i = 0; i < table.rows; ++i) column[i] = calls[i] ? (b_calls[i] ? (calls[i] === b_calls[i] ? 3 : 2) : 1) : 0;
    table.facets.unshift({ name: "change", title: "Change", column,
      values: ["only in B", "only in A", "other number of calls", "same number of calls"] });
  }

  valueName(facet, value) {
    const text = facet.values[value];
    if (text === "") return "(none)";
    if (facet.name === "level") return text + " " + (LEVEL_NAMES[text] || "");
    return clipped(text, 200);
  }

  facetDrop(facet) {
    const drop = dropdown(facet.title, panel => {
      const counts = this.facetCounts(facet);
      const filter = h("input", { type: "search", placeholder: "Find", "aria-label": "Find in " + facet.title, spellcheck: "false" });
      const list = h("div", { class: "values" });
      const order = [...facet.values.keys()].filter(value => counts[value] > 0 || this.chosen.get(facet.name)?.has(value));
      order.sort((a, b) => counts[b] - counts[a]);
      const fill = () => {
        const wanted = filter.value.toLowerCase(), names = [];
        let more = 0;
        for (const value of order) {
          const name = this.valueName(facet, value);
          if (wanted && !name.toLowerCase().includes(wanted)) continue;
          if (names.length >= SHOWN_VALUES) ++more;
          else names.push(h("label", {}, h("input", { type: "checkbox", checked: !!this.chosen.get(facet.name)?.has(value),
            onchange: event => this.choose(facet, value, event.target.checked) }), h("span", { class: "name" }, name),
            h("span", { class: "dim" }, count(counts[value]))));
        }
        replace(list, names, more ? h("p", { class: "dim" }, "and " + count(more) + " more: type to find them") : null);
      };
      filter.addEventListener("input", fill);
      fill();
      replace(panel, order.length > 12 ? filter : null, list, facet.sets
        ? h("p", { class: "dim note" }, "Rows with a call there; their numbers are of all their calls.") : null);
    });
    return { ...drop, facet };
  }
  choose(facet, value, on) {
    const values = this.chosen.get(facet.name) || new Set();
    if (on) values.add(value);
    else values.delete(value);
    if (values.size) this.chosen.set(facet.name, values);
    else this.chosen.delete(facet.name);
    this.update();
  }

  // For each facet with chosen values: which of its values or sets of values match.
  wantedOf(facet) {
    const chosen = this.chosen.get(facet.name), size = facet.sets ? facet.sets.length : facet.values.length;
    const wanted = new Uint8Array(size);
    for (let i = 0; i < size; ++i) wanted[i] = facet.sets ? facet.sets[i].some(value => chosen.has(value)) : chosen.has(i);
    return wanted;
  }
  rowsOfFacets(except) {
    const active = this.table.facets.filter(facet => facet.name !== except && this.chosen.has(facet.name));
    const rows = new Uint32Array(this.table.rows);
    let many = 0;
    const checks = active.map(facet => [facet.column, this.wantedOf(facet)]);
    for (let i = 0; i < rows.length; ++i) {
      let fits = true;
      for (let c = 0; c < checks.length && fits; ++c) fits = checks[c][1][checks[c][0][i]] === 1;
      if (fits) rows[many++] = i;
    }
    return rows.subarray(0, many);
  }
  facetCounts(facet) {
    const rows = this.rowsOfFacets(facet.name), counts = new Uint32Array(facet.values.length);
    const bySet = facet.sets ? new Uint32Array(facet.sets.length) : counts;
    const mask = this.matches;
    for (let at = 0; at < rows.length; ++at) if (!mask || mask[rows[at]]) ++bySet[facet.column[rows[at]]];
    if (facet.sets) facet.sets.forEach((set, i) => { for (const value of set) counts[value] += bySet[i]; });
    return counts;
  }

  // Which rows match the query: all words somewhere in the text, or the pattern.
  async findMatches(run) {
    const query = readQuery(this.query);
    if (!query) return null;
    const { texts, rows } = this.table, result = new Uint8Array(rows).fill(1), found = new Uint8Array(rows);
    for (const each of query.words || [query.pattern]) {
      found.fill(0);
      for (let first = 0; first < rows; first += CHUNK) {
        const last = Math.min(rows, first + CHUNK);
        if (query.words) texts.markContaining(each, found, first, last);
        else texts.markMatching(each, found, first, last);
        if (last < rows && first % (4 * CHUNK) === 0) await pause();
        if (run !== this.run) return null;
      }
      for (let i = 0; i < rows; ++i) result[i] &= found[i];
    }
    return result;
  }

  async update() {
    const run = ++this.run;
    this.element.setAttribute("aria-busy", "true");
    let matches = null, wrong = "";
    try {
      matches = this.query === this.matchedQuery ? this.matches : await this.findMatches(run);
    } catch (error) {
      wrong = "This is not a regular expression. ";
    }
    if (run !== this.run) return;
    this.matches = matches;
    this.matchedQuery = wrong ? null : this.query;
    this.base = this.rowsOfFacets();
    this.shown = matches ? this.base.filter(row => matches[row]) : this.base;
    this.totals = {};
    for (const measure of this.measures) {
      // Device time of APIs, configs and shapes has that of the calls inside, and does not add up.
      if (!MEASURES[measure].share || (measure === "device_ns" && ["apis", "configs", "shapes"].includes(this.name))) continue;
      for (const name of [measure, "b_" + measure]) {
        if (!this.table.has(name)) continue;
        this.totals[name] = { base: this.table.sum(name, this.base), shown: this.table.sum(name, this.shown) };
      }
    }
    this.fitColumns(this.grid.scroll.clientWidth, true);
    this.order();
    this.tell(wrong);
    for (const { button, facet } of this.drops) {
      const values = this.chosen.get(facet.name);
      const names = values ? [...values].map(value => this.valueName(facet, value)) : [];
      replace(button, facet.title, names.length ? ": " + clipped(names[0], 24) + (names.length > 1 ? " +" + (names.length - 1) : "") : "");
      button.classList.toggle("on", names.length > 0);
    }
    this.clear.hidden = !this.query && !this.chosen.size;
    this.element.removeAttribute("aria-busy");
  }

  tell(wrong) {
    const all = this.table.rows, parts = [];
    parts.push(this.shown.length === all ? plural(all, this.one) : count(this.shown.length) + " of " + plural(all, this.one));
    for (const name of ["calls", "wall_ns", "self_ns", "device_ns", "memory_bytes"]) {
      const total = this.totals[name];
      const { format, title } = MEASURES[name], other = this.totals["b_" + name];
      if (other) parts.push(title + " " + format(total.shown) + " → " + format(other.shown));
      if (!total || !total.base || this.two) continue;
      const unit = name === "calls" ? " calls" : name === "memory_bytes" ? "" : " " + title;
      parts.push(format(total.shown) + unit + (total.shown === total.base ? "" : " (" + percent(total.shown / total.base) + ")"));
    }
    this.status.textContent = wrong + parts.join(" · ");
  }

  // The columns that there may be, the most wanted first.
  allColumns() {
    const { table, totals } = this, columns = [];
    this.both = this.two && this.measures.some(name => table.has("b_" + name));
    const value = (name, row) => table.value(name, row);
    for (const name of this.measures) {
      const { title, format, help, share, first } = MEASURES[name];
      const shown = (key, row) => (Number.isNaN(value(key, row)) ? "-" : format(value(key, row)));
      if (this.two && table.has("b_" + name)) {
        const other = "b_" + name, difference = row => (value(other, row) || 0) - (value(name, row) || 0);
        let widest = 0;
        for (let at = 0; at < Math.min(this.base.length, 100_000); ++at) widest = Math.max(widest, Math.abs(difference(this.base[at])));
        columns.push({ key: name, title: title + " A", help: help + ", in A", width: 84, first, group: name, sort: row => value(name, row), cell: row => shown(name, row) });
        columns.push({ key: other, title: title + " B", help: help + ", in B", width: 84, first, group: name, sort: row => value(other, row), cell: row => shown(other, row) });
        columns.push({ key: name + " difference", title: "B − A", help: title + ", what B has more than A", width: 92, first, group: name,
          sort: row => Math.abs(difference(row)), share: row => Math.abs(difference(row)) / widest,
          cell: row => signed(difference(row), format), tone: row => (difference(row) > 0 ? "more" : difference(row) < 0 ? "less" : "") });
        if (share) columns.push({ key: name + " ratio", title: "B / A", help: title + ", B in parts of A", width: 68, first: first + 5,
          sort: row => value(other, row) / value(name, row), cell: row => {
            const ratio = value(other, row) / value(name, row);
            return Number.isFinite(ratio) ? "×" + (ratio < 10 ? ratio.toFixed(2) : count(ratio)) : value(other, row) ? "new" : "-";
          } });
        continue;
      }
      if (this.both) continue;  // only A has it
      columns.push({ key: name, title, help, width: Math.max(74, 8 * title.length + 22), first, sort: row => value(name, row), cell: row => shown(name, row) });
      const total = totals?.[name]?.base;
      if (share && total && !this.plain) columns.push({ key: name + " %", title: title + " %", help: title + ", of all rows of the chosen facets", width: Math.max(78, 8 * title.length + 38),
        first: first + 0.5, sort: row => value(name, row), cell: row => percent(value(name, row) / total), share: row => value(name, row) / total });
    }
    return columns;
  }
  fitColumns(width, force) {
    if (!width || !this.base || (!force && width === this.fitted)) return;
    this.fitted = width;
    const all = this.allColumns(), wanted = [...all].sort((a, b) => (b.key === this.sortKey) - (a.key === this.sortKey) || a.first - b.first);
    let room = width - (this.nameWidth || Math.max(260, width * 0.34));
    const kept = new Set();
    for (const column of wanted) {
      if (kept.has(column)) continue;
      // A, B and the difference come together.
      const group = column.group ? all.filter(each => each.group === column.group) : [column];
      room -= group.reduce((sum, each) => sum + each.width, 0);
      if (room < 0 && kept.size) break;
      for (const each of group) kept.add(each);
    }
    const words = readableWords(this.query);
    const text = { key: "text", title: this.one[0].toUpperCase() + this.one.slice(1), help: "in the order of names", text: true, width: this.nameWidth,
      cell: row => [levelMark(this.table, row), marked(this.textOf(row, 400), words)].flat() };
    const columns = all.filter(column => kept.has(column));
    if (this.nameWidth) columns.unshift(text);
    else columns.push(text);
    this.columns = columns;
    this.grid.setColumns(columns, this.sortKey || "text", this.descending);
  }
  textOf(row, most) {
    return clipped(this.table.texts.at(row), most);
  }

  sortBy(column) {
    if ((this.sortKey || "text") === column.key) this.descending = !this.descending;
    else {
      this.sortKey = column.key === "text" ? null : column.key;
      this.descending = this.sortKey !== null;
    }
    this.fitColumns(this.grid.scroll.clientWidth, true);
    this.order();
  }
  order() {
    const column = this.sortKey && this.columns.find(each => each.key === this.sortKey);
    let rows = this.shown;
    if (column) rows = sortRows(rows, column.sort, this.descending);
    else if (this.descending) rows = rows.slice().reverse();
    this.grid.setRows(rows);
  }

  select(row) {
    const place = this.grid.rows.indexOf(row);
    if (place >= 0) this.grid.select(place);
  }
  // What a selected row has, in full.
  show(row) {
    this.onShow?.(row);
    if (row < 0) {
      this.detail.hidden = true;
      return;
    }
    const { table } = this, facts = [];
    for (const name of this.measures) {
      const { title, format, help } = MEASURES[name];
      const one = key => (Number.isNaN(table.value(key, row)) ? "-" : format(table.value(key, row)));
      const total = this.totals[name]?.base;
      let text = one(name);
      if (this.two && table.has("b_" + name)) text = one(name) + " → " + one("b_" + name);
      else if (total) text += " (" + percent(table.value(name, row) / total) + ")";
      facts.push([title, text, help]);
    }
    for (const facet of table.facets) {
      const values = table.facetValues(facet, row).map(value => this.valueName(facet, value));
      if (values.length && !(values.length === 1 && values[0] === "(none)")) {
        facts.push([facet.title, values.slice(0, 30).join(", ") + (values.length > 30 ? " and " + (values.length - 30) + " more" : "")]);
      }
    }
    const text = table.texts.at(row);
    replace(this.detail,
      h("button", { type: "button", class: "close", "aria-label": "Close details", onclick: () => this.grid.deselect() }, "×"),
      h("p", { class: "full" }, clipped(text, 20_000)),
      h("p", { class: "actions" }, this.links.map(link => {
        const act = link.go(this, row);
        return act ? h("button", { type: "button", onclick: act }, link.title) : null;
      })),
      h("dl", {}, facts.map(([term, fact, help]) => h("div", {}, h("dt", { title: help }, term), h("dd", {}, fact)))));
    this.detail.hidden = false;
  }
  follow(row) {
    for (const link of this.links) {
      const act = link.go(this, row);
      if (act) return act();
    }
  }
  focusSearch() {
    this.search?.focus();
    this.search?.select();
  }
  // On paper are the first rows, in full.
  print() {
    if (!this.columns) return;
    const text = this.columns.find(column => column.text), numbers = this.columns.filter(column => column !== text);
    const wanted = [...numbers].sort((a, b) => a.first - b.first).slice(0, PRINTED_COLUMNS);
    const columns = [...numbers.filter(column => wanted.includes(column)), text];
    const rows = this.grid.rows.subarray(0, PRINTED), rest = this.grid.rows.length - rows.length;
    this.printed?.remove();
    this.printed = h("table", { class: "printed" },
      h("thead", {}, h("tr", {}, columns.map(column => h("th", {}, column.title)))),
      h("tbody", {}, [...rows].map(row => h("tr", {}, columns.map(column => h("td", {}, column.text ? [levelMark(this.table, row), this.textOf(row, 2000)] : column.cell(row)))))),
      rest > 0 ? h("caption", {}, "The first " + PRINTED + " rows of " + count(rest + PRINTED)) : null);
    this.grid.element.after(this.printed);
  }
}

function readableWords(query) {
  try {
    return readQuery(query);
  } catch (error) {
    return null;
  }
}

// The level of a row, if its table has rows of several levels and each row has one.
export function levelMark(table, row) {
  if (table.oneLevel === undefined) {
    const level = table.facets.find(facet => facet.name === "level");
    const used = new Set(level ? level.column : []);
    table.oneLevel = used.size > 1 && [...used].every(at => !level.sets || level.sets[at].length <= 1) ? level : null;
  }
  if (!table.oneLevel) return "";
  const level = table.oneLevel.values[table.facetValues(table.oneLevel, row)[0]];
  if (level === undefined) return "";
  return h("span", { class: "level level-" + (/^[0-4]$/.test(level) ? level : "other"), title: "level " + clipped(level, 20) + " " + (LEVEL_NAMES[level] || "") }, clipped(level, 4));
}

// A text with what was searched for in <mark>s.
function marked(text, query) {
  if (!query) return text;
  const pattern = query.pattern ? new RegExp(query.pattern.source, "gi")
    : new RegExp(query.words.map(word => word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")).join("|"), "gi");
  const parts = [];
  let at = 0;
  for (const match of text.matchAll(pattern)) {
    if (!match[0]) break;
    if (match.index > at) parts.push(text.slice(at, match.index));
    parts.push(h("mark", {}, match[0]));
    at = match.index + match[0].length;
  }
  if (!parts.length) return text;
  parts.push(text.slice(at));
  return parts;
}
