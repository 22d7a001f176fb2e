// The page: which views there are, and how they lead to each other.

import { readHead } from "./data.js";
import { h, replace } from "./dom.js";
import { FlameView } from "./flame.js";
import { TableView } from "./table_view.js";
import { clipped, count } from "./text.js";
import { toggleTheme } from "./theme.js";
import { TimelineView } from "./timeline.js";
import { CoverageView, MemoryView, NumbersView, SourcesView, StepsView, SummaryView } from "./views.js";

class App {
  constructor(head) {
    this.head = head;
    this.two = head.traces.length > 1;
    head.tables ||= {};
    this.views = [];
    this.missing = [];
    const { tables } = head;
    const configs = { title: "Its configs", go: (view, row) => tables.configs && head.facets.api &&
      (() => this.go("configs", { facets: { api: view.table.texts.at(row) } })) };
    const inTree = (title, text) => ({ title, go: (view, row) => head.trees?.length && (() => this.go("tree", { query: text(view, row) })) });
    const inTimeline = { title: "In the timeline", go: (view, row) => head.timeline && (() => this.go("timeline", { query: view.table.texts.at(row) })) };
    const name = (view, row) => view.table.texts.at(row);
    const apiOf = (view, row) => {
      const facet = view.table.facets.find(each => each.name === "api");
      return facet ? facet.values[facet.column[row]] : "";
    };
    const add = (id, there, title, rows, make, how) => {
      if (there) this.views.push({ id, title, rows, make });
      else if (how) this.missing.push([title, how]);
    };
    const listed = (id, title, one, how, more = {}) => add(id, tables[id], title, tables[id]?.rows,
      () => new TableView(this, { name: id, title, one, sort: head.tables[id].sort === undefined ? "self_ns" : head.tables[id].sort, ...more }), how);
    const whole = head.traces[0].calls !== undefined;
    add("summary", whole, "Summary", null, () => new SummaryView(this));
    add("steps", tables.steps, "Steps", tables.steps?.rows, () => new StepsView(this), "no step of an optimizer or a model ended");
    listed("apis", "APIs", "API", null, { links: [configs, inTree("In the call tree", name), inTimeline] });
    listed("configs", "Configs", "config", null, { links: [{ title: "Its API", go: (view, row) => apiOf(view, row) && (() => this.go("apis", { query: apiOf(view, row) })) }, inTree("Its API in the call tree", apiOf)] });
    listed("shapes", "Shapes", "shape", "no call has sizes that torchtrace knows");
    listed("modules", "Modules", "module", "run with --levels 1-3 --frames modules", { links: [inTree("In the call tree", (view, row) => name(view, row).replace(/ \(.*$/s, ""))] });
    listed("lines", "Lines", "line", "run with --stacks", { links: [{ title: "In the source", go: (view, row) => {
      const file = view.table.facets.find(each => each.name === "file");
      return head.sources && file && view.table.columns.number &&
        (() => this.go("sources", { file: file.values[file.column[row]], line: view.table.columns.number[row] }));
    } }] });
    add("tree", head.trees?.length, "Call tree", null, () => new FlameView(this));
    add("timeline", head.timeline, "Timeline", null, () => new TimelineView(this), "the trace has no times");
    add("memory", head.memory, "Memory", null, () => new MemoryView(this), "run with --memory");
    add("coverage", head.coverage, "Coverage", null, () => new CoverageView(this));
    add("numbers", head.numbers, "Numbers", null, () => new NumbersView(this), "run with --numbers");
    add("sources", head.sources, "Source", null, () => new SourcesView(this), "left out for privacy; report with --sources");
    if (!whole) this.missing = [];
  }

  start() {
    const title = this.head.traces.map(trace => trace.name).join(" → ");
    document.title = clipped(title, 100) + " - torchtrace";
    this.nav = h("nav", { "aria-label": "Views" }, h("ul", {}, this.views.map(view => h("li", {},
      view.link = h("a", { href: "#" + view.id }, h("span", {}, view.title), view.rows ? h("span", { class: "dim" }, count(view.rows)) : null)))));
    this.main = h("main", { id: "main", tabindex: "-1" });
    const help = h("dialog", { "aria-label": "Keys" }, h("h2", {}, "Keys"), h("dl", { class: "facts" }, KEYS.map(([key, what]) =>
      h("div", {}, h("dt", {}, key), h("dd", {}, what)))), h("button", { type: "button", onclick: () => help.close() }, "Close"));
    this.help = help;
    const app = document.getElementById("app");
    replace(app, h("header", {}, h("h1", {}, this.two ? [h("b", {}, "A "), clipped(this.head.traces[0].name, 200), h("b", {}, "  B "), clipped(this.head.traces[1].name, 200)] : clipped(title, 300)),
      h("span", { class: "dim" }, "torchtrace " + clipped(this.head.torchtrace || "", 40)),
      h("span", { class: "grow" }),
      h("button", { type: "button", onclick: () => this.help.showModal(), "aria-label": "Keys" }, "?"),
      h("button", { type: "button", onclick: () => {
        toggleTheme();
        document.activeElement?.blur();
      } }, "Light / dark")), this.views.length > 1 ? this.nav : null, this.main, help);
    app.classList.toggle("alone", this.views.length === 1);
    addEventListener("hashchange", () => this.follow());
    addEventListener("keydown", event => this.key(event));
    addEventListener("beforeprint", () => this.current?.view.print?.());
    addEventListener("afterprint", () => this.current?.view.printed?.remove());
    this.follow();
  }

  follow() {
    const id = location.hash.slice(1);
    this.show(this.views.find(view => view.id === id) || this.views[0], null);
  }
  go(id, wish) {
    const view = this.views.find(each => each.id === id);
    if (!view) return;
    history.pushState(null, "", "#" + id);
    this.show(view, wish);
  }
  async show(entry, wish) {
    const before = this.current;
    this.current = entry;
    for (const { id, link } of this.views) {
      if (id === entry.id) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    }
    if (!entry.view) {
      entry.view = entry.make();
      entry.view.element.append(h("p", { class: "reading dim" }, "Reading ..."));
    }
    if (before !== entry || !this.main.contains(entry.view.element)) replace(this.main, entry.view.element);
    this.main.setAttribute("aria-busy", "true");
    try {
      await entry.view.open(wish);
    } catch (error) {
      if (this.current === entry) this.fail(error);
    }
    if (this.current !== entry) return;
    this.main.removeAttribute("aria-busy");
    document.documentElement.dataset.ready = entry.id;
  }
  fail(error) {
    console.error(error);
    replace(this.main, h("p", { class: "bad", role: "alert" }, "This view can't be shown: " + clipped(String(error && error.message), 500)));
  }
  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || this.help.open) return;
    if (/^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) {
      if (event.key === "Escape") event.target.blur();
      return;
    }
    if (event.key === "/" && this.current.view.focusSearch) this.current.view.focusSearch();
    else if (event.key === "?") this.help.showModal();
    else if (event.key === "[" || event.key === "]") {
      const at = this.views.indexOf(this.current) + (event.key === "]" ? 1 : -1);
      if (this.views[at]) this.go(this.views[at].id, null);
    } else return;
    event.preventDefault();
  }
}

const KEYS = [["/", "search"], ["[  ]", "the view before, the next view"], ["↑ ↓ PgUp PgDn Home End", "move in a table"],
  ["Enter", "follow a row; zoom into a call"], ["Escape", "close details; zoom out"], ["← → ↑ ↓", "move in the call tree"],
  ["← → + − 0", "move and zoom in the timeline"], ["n p", "the next and the previous call (that matches) in the timeline"], ["?", "this list"]];

try {
  new App(readHead()).start();
} catch (error) {
  console.error(error);
  replace(document.getElementById("app"), h("p", { class: "bad", role: "alert" }, "This page can't be shown: " + clipped(String(error && error.message), 500)));
}
