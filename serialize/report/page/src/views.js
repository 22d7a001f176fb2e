// The views that are not the call tree or the timeline.

import { readBlock, readTable, sortRows } from "./data.js";
import { Areas, Bars, legend } from "./charts.js";
import { h, replace } from "./dom.js";
import { MEASURES } from "./measures.js";
import { levelMark, TableView } from "./table_view.js";
import { amount, bytes, clipped, count, LEVEL_NAMES, percent, plural, signed, time, visible } from "./text.js";
import { levelColor, series } from "./theme.js";

const facts = list => h("dl", { class: "facts" }, list.filter(Boolean).map(([term, ...fact]) =>
  h("div", {}, h("dt", {}, term), h("dd", {}, fact))));

function table(heads, rows, label) {
  return h("div", { class: "scroll-x" }, h("table", { "aria-label": label },
    h("thead", {}, h("tr", {}, heads.map(head => h("th", { scope: "col" }, head)))),
    h("tbody", {}, rows.map(row => h("tr", {}, row.map(cell => h("td", {}, cell)))))));
}

export class SummaryView {
  constructor(app) {
    this.app = app;
    this.title = "Summary";
    this.element = h("section", { class: "view page", "aria-label": this.title });
  }
  async open() {
    if (this.built) return;
    this.built = true;
    const { head } = this.app, { traces } = head;
    const cards = traces.map((trace, t) => this.trace(trace, this.app.two ? "AB"[t] : null));
    const slots = { apis: h("div", {}), steps: h("div", {}) };
    replace(this.element,
      this.app.two ? this.totalsOfTwo(traces) : this.totals(traces[0]),
      h("div", { class: "columns" },
        h("div", {}, cards),
        h("div", {}, slots.apis, slots.steps, this.leftOut(head), this.unseen())));
    // What needs decoding comes after the first picture.
    setTimeout(() => {
      if (head.tables.apis) this.mostTime(slots.apis);
      if (head.tables.steps) this.steps(slots.steps);
    }, 0);
  }
  figures(trace) {
    return [["calls", trace.calls, count], ["APIs", trace.apis, count], ["configs", trace.configs, count], ["wall time", trace.wall_ns, time],
      ["recorded time", trace.self_ns, time], ["device time", trace.device_ns, time], ["peak memory", trace.peak_bytes, bytes],
      ["FLOP", trace.flops, value => amount(value, "")], ["bytes moved", trace.bytes, bytes]].filter(([, value]) => value !== null && value !== undefined);
  }
  totals(trace) {
    return h("ul", { class: "tiles" }, this.figures(trace).map(([title, value, format]) => h("li", {}, h("strong", {}, format(value)), title)));
  }
  totalsOfTwo([a, b]) {
    const other = new Map(this.figures(b).map(([title, value]) => [title, value]));
    return h("article", {}, table(["", "A", "B", "B − A", "B / A"], this.figures(a).filter(([title]) => other.has(title)).map(([title, value, format]) => [
      title, format(value), format(other.get(title)), signed(other.get(title) - value, format), value ? "×" + (other.get(title) / value).toFixed(2) : "-"]), "Totals"));
  }
  trace(trace, letter) {
    const line = list => (list || []).map(word => (/^[\w@%+=:,./-]+$/.test(word) ? word : JSON.stringify(word))).join(" ");
    const loss = (trace.notes || []).filter(note => note.kind === "loss"), unseen = (trace.notes || []).filter(note => note.kind === "unseen");
    const other = (trace.notes || []).filter(note => note.kind !== "loss" && note.kind !== "unseen");
    const notes = list => h("ul", {}, list.map(note => h("li", {}, clipped(note.text, 600))));
    return h("article", {},
      h("h2", {}, letter ? letter + ": " : "", clipped(trace.name, 300)),
      facts([
        ["program", h("code", {}, clipped(line(trace.program), 500))],
        trace.ended && ["ended", clipped(trace.ended, 300)],
        trace.started && ["started", clipped(trace.started, 100)],
        trace.processes && ["ran in", plural(trace.processes, "process", "processes") + (trace.threads ? ", " + plural(trace.threads, "thread") : "")],
        trace.host && ["host", clipped(trace.host, 300)],
        trace.cwd && ["folder", clipped(trace.cwd, 500)],
        ["versions", (trace.versions || []).map(([name, version]) => clipped(name + " " + version, 200)).join(", ")],
        trace.command && ["command", h("code", {}, clipped(line(trace.command), 800))],
      ]),
      h("p", { class: trace.complete ? "good" : "bad" }, trace.complete ? "✓ Complete: nothing that was recorded is lost." : "! Incomplete: see below."),
      loss.length ? notes(loss) : null,
      table(["level", "calls", "APIs", "configs", "self", "self %", "FLOP"], (trace.by_level || []).map(level => [
        [h("i", { class: "dot", style: { background: levelColor(level.level) } }), level.level + " " + (LEVEL_NAMES[level.level] || "")],
        count(level.calls), count(level.apis), count(level.configs), level.self_ns === null ? "-" : time(level.self_ns),
        trace.self_ns ? percent(level.self_ns / trace.self_ns) : "-", level.flops ? amount(level.flops, "") : "-"]), "Levels"),
      unseen.length ? [h("h3", {}, "Not seen"), notes(unseen)] : null,
      other.length ? [h("h3", {}, "Notes"), notes(other)] : null);
  }
  leftOut({ left_out: left = [] }) {
    return h("article", {}, h("h2", {}, "Left out of this page"), left.length
      ? h("ul", {}, left.map(each => h("li", {}, plural(each.rows, visible(each.what), visible(each.whats || each.what + "s")) +
        (each.calls ? ", " + plural(each.calls, "call") : "") + (each.self_ns ? ", " + time(each.self_ns) : "") + (each.why ? ": " + visible(each.why) : ""))))
      : h("p", {}, "Nothing."));
  }
  unseen() {
    const missing = this.app.missing;
    return missing.length ? h("article", {}, h("h2", {}, "Not in this trace"), facts(missing.map(([title, how]) => [title, how]))) : null;
  }
  async mostTime(slot) {
    const data = await readTable(this.app.head, "apis");
    const by = this.app.two ? "difference" : data.has("self_ns") ? "self_ns" : "calls";
    const key = by === "difference" ? row => Math.abs((data.value("b_self_ns", row) || 0) - (data.value("self_ns", row) || 0)) : row => data.value(by, row);
    const all = Uint32Array.from({ length: data.rows }, (_, i) => i), rows = [...sortRows(all, key, true).slice(0, 10)];
    const total = by === "difference" ? 0 : data.sum(by, all), widest = rows.length ? key(rows[0]) : 1;
    replace(slot, h("article", {}, h("h2", {}, by === "difference" ? "APIs whose self time differs most" : "APIs with the most " + (by === "calls" ? "calls" : "self time")),
      h("ol", { class: "bars" }, rows.map(row => {
        const value = by === "difference" ? data.value("b_self_ns", row) - data.value("self_ns", row) : key(row);
        return h("li", {}, h("button", { type: "button", onclick: () => this.app.go("apis", { row }) },
          h("span", { class: "bar", style: { width: 100 * key(row) / widest + "%" } }), h("span", { class: "name" }, levelMark(data, row), clipped(data.texts.at(row), 200)),
          h("span", { class: "value" }, by === "difference" ? signed(value, time) : MEASURES[by].format(value)), total ? h("span", { class: "value share" }, percent(value / total)) : null));
      }))));
  }
  async steps(slot) {
    const data = await readTable(this.app.head, "steps"), bars = new Bars("Wall time of steps", row => this.app.go("steps", { row }));
    bars.picture.canvas.classList.add("small");
    replace(slot, h("article", {}, h("h2", {}, "Steps"), bars.picture.canvas));
    bars.show(barsOf(data, data.has("wall_ns") ? "wall_ns" : "self_ns", this.app.two));
  }
}

function barsOf(data, measure, two) {
  const odd = data.columns.odd, other = two && data.has("b_" + measure);
  return { count: data.rows, value: i => data.value(measure, i), other: other ? i => data.value("b_" + measure, i) : null,
    odd: i => odd && odd[i] > 0, name: i => clipped(data.texts.at(i), 40), format: MEASURES[measure].format };
}

export class StepsView extends TableView {
  constructor(app) {
    super(app, { name: "steps", title: "Steps", one: "step", plain: true, nameWidth: 130, about: app.head.tables.steps?.about && visible(app.head.tables.steps.about),
      beforeTable: view => view.chart() });
  }
  chart() {
    const measures = this.measures.filter(name => name !== "configs" && name !== "apis" && name !== "raised");
    this.measure = ["wall_ns", "self_ns"].find(name => measures.includes(name)) || measures[0];
    this.bars = new Bars("Bars of all steps; the table below has the numbers", row => this.select(row));
    const select = h("select", { "aria-label": "What bars show", onchange: () => {
      this.measure = select.value;
      this.bars.show(barsOf(this.table, this.measure, this.two));
    } }, measures.map(name => h("option", { value: name }, MEASURES[name].title)));
    select.value = this.measure;
    const odd = this.table.columns.odd;
    this.bars.show(barsOf(this.table, this.measure, this.two));
    this.onShow = row => {
      this.bars.selected = row;
      this.bars.picture.redraw();
    };
    return h("figure", {}, h("figcaption", {}, select, this.two ? legend(["A", "B"], i => series(i ? 0 : 5))
      : odd?.some(Boolean) ? legend(["step", "much longer than most"], i => (i ? "light-dark(#c2410c, #fb923c)" : series(0))) : null), this.bars.picture.canvas);
  }
}

export class MemoryView {
  constructor(app) {
    this.app = app;
    this.title = "Memory";
    this.element = h("section", { class: "view page", "aria-label": this.title });
  }
  async open() {
    if (this.built) return;
    this.built = true;
    const { head } = this.app, { timeline } = head, tick = head.memory.tick_ns;
    const parts = [];
    for (const device of head.memory.devices) {
      const columns = device.block ? await readBlock(head, device.block) : null;
      const title = [this.app.two ? "AB"[device.trace || 0] + ": " : "", clipped(device.device, 100), device.process ? " of " + clipped(device.process, 100) : ""];
      const body = [h("h2", {}, title), h("p", {}, h("strong", {}, "peak " + bytes(device.peak_bytes)), " (" + count(device.peak_bytes) + " bytes), ",
        bytes(device.end_bytes) + " at the end", device.peak_step ? ", in step " + visible(device.peak_step) : ""),
      device.when ? h("p", { class: "dim wrap" }, clipped(device.when, 600)) : null];
      if (columns && columns.at.length) {
        const areas = new Areas("Memory over time"), layers = device.kinds.map((name, k) => ({ name, values: columns["kind_" + k] }));
        areas.show({ at: columns.at, layers, from: 0, to: device.ticks, format: bytes, tick,
          peak: { at: device.peak_at, value: device.peak_bytes, text: "peak " + bytes(device.peak_bytes) } });
        const names = device.kinds.map(visible);
        body.push(h("figure", {}, areas.picture.canvas, legend(names, series)));
      }
      if (device.rows?.length) body.push(h("h3", {}, "At the peak"), table(["bytes", "%", "blocks", "kind", "made by"], device.rows.slice(0, 200).map(row => [
        bytes(row.bytes), percent(row.bytes / device.peak_bytes), count(row.blocks), visible(row.kind), clipped(row.made_by, 300)]), "At the peak"),
      device.rows.length > 200 ? h("p", { class: "dim" }, "and " + count(device.rows.length - 200) + " more") : null);
      if (device.leaks?.length) body.push(h("h3", {}, "Leaks: what several steps made and nothing freed"), table(["bytes", "blocks", "steps", "kind", "made by"],
        device.leaks.slice(0, 200).map(row => [bytes(row.bytes), count(row.blocks), count(row.steps), visible(row.kind), clipped(row.made_by, 300)]), "Leaks"));
      parts.push(h("article", {}, body));
    }
    replace(this.element, parts);
  }
}

export class CoverageView extends TableView {
  constructor(app) {
    super(app, { name: "coverage", title: "Coverage", one: "API", plain: true, sort: "calls", beforeTable: () => this.head() });
  }
  head() {
    const { list, total, called, namespaces } = this.app.head.coverage;
    const most = [...namespaces].sort((a, b) => b.known - a.known).slice(0, 12);
    return h("div", { class: "coverage" }, h("p", {}, h("strong", {}, percent(called / total)), " of " + clipped(list, 200) + ": " + count(called) + " of " + plural(total, "API") + " called"),
      h("ol", { class: "bars short" }, most.map(each => h("li", {}, h("button", { type: "button", onclick: () => this.open({ facets: { namespace: each.namespace } }) },
        h("span", { class: "bar", style: { width: 100 * each.called / each.known + "%" } }), h("span", { class: "name" }, clipped(each.namespace, 100)),
        h("span", { class: "value" }, count(each.called) + " of " + count(each.known)), h("span", { class: "value share" }, percent(each.called / each.known)))))));
  }
}

export class NumbersView extends TableView {
  constructor(app) {
    super(app, { name: "numbers", title: "Numbers", one: "API", plain: true, sort: "calls_with_nan", beforeTable: () => this.firsts() });
  }
  firsts() {
    const { first } = this.app.head.numbers;
    return h("div", { class: "firsts" }, first.length ? first.map(each => h("article", { class: "bad-box" },
      h("h2", {}, clipped(each.title, 500)), facts(each.facts.map(([term, fact]) => [visible(term), clipped(fact, 500)]))))
      : h("p", { class: "good" }, "✓ No NaN or infinity in what was looked at."));
  }
}

export class SourcesView {
  constructor(app) {
    this.app = app;
    this.title = "Source";
    this.element = h("section", { class: "view", "aria-label": this.title });
  }
  async open(wish) {
    if (!this.files) {
      const block = await readBlock(this.app.head, this.app.head.sources.block);
      this.files = block.file;
      this.contents = block.text;
      const lines = this.app.head.tables.lines ? await readTable(this.app.head, "lines") : null;
      this.byFile = new Map();
      const facet = lines?.facets.find(each => each.name === "file");
      if (facet && lines.columns.number) for (let row = 0; row < lines.rows; ++row) {
        const file = facet.values[facet.column[row]];
        if (!this.byFile.has(file)) this.byFile.set(file, new Map());
        const places = this.byFile.get(file), at = lines.columns.number[row];
        const known = places.get(at) || { self: 0, calls: 0 };
        known.self += lines.columns.self_ns?.[row] || 0;
        known.calls += lines.columns.calls[row];
        places.set(at, known);
      }
      this.total = lines?.columns.self_ns ? lines.columns.self_ns.reduce((a, b) => a + b, 0) : 0;
      this.pick = h("select", { "aria-label": "File", onchange: () => this.show(this.pick.selectedIndex) },
        Array.from({ length: this.files.count }, (_, i) => h("option", {}, clipped(this.files.at(i), 200))));
      this.code = h("div", { class: "code", tabindex: "0", "aria-label": "Source text" });
      replace(this.element, h("div", { class: "toolbar" }, this.pick), this.code);
      this.show(0);
    }
    if (wish?.file) {
      for (let i = 0; i < this.files.count; ++i) if (this.files.at(i) === wish.file) {
        this.pick.selectedIndex = i;
        this.show(i);
        const line = this.code.children[wish.line - 1];
        if (line) {
          line.classList.add("chosen");
          line.scrollIntoView({ block: "center" });
        }
      }
    }
  }
  show(i) {
    const places = this.byFile.get(this.files.at(i)) || new Map();
    const widest = Math.max(1, ...[...places.values()].map(place => place.self || place.calls));
    replace(this.code, this.contents.at(i).split("\n").slice(0, 20_000).map((line, n) => {
      const place = places.get(n + 1);
      return h("div", { class: "code-line" },
        h("span", { class: "amount" }, place ? h("span", { class: "bar", style: { width: 100 * (place.self || place.calls) / widest + "%" } }) : null,
          place ? h("span", {}, this.total ? percent(place.self / this.total) : plural(place.calls, "call")) : null),
        h("span", { class: "number" }, String(n + 1)), h("code", {}, visible(line.replace(/\t/g, "    ").slice(0, 2000)) || " "));
    }));
  }
}
