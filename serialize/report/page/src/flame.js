// The call tree as a flame graph or an icicle. A box is as wide as the amount of its node with all below it.

import { readBlock } from "./data.js";
import { fitName, h, Picture, replace } from "./dom.js";
import { MEASURES, WEIGHTS } from "./measures.js";
import { amount, clipped, count, LEVEL_NAMES, percent, plural, relativeModule, signed } from "./text.js";
import { differenceColor, ink, levelColor } from "./theme.js";

const ROW = 20;

// Places of all nodes for one weight. A node comes after its parent.
function layout(tree, weight, two) {
  const { parent, nodes } = tree, a = tree.columns[weight], b = two ? tree.columns["b_" + weight] : null;
  const total = new Float64Array(nodes), other = b ? new Float64Array(nodes) : null;
  for (let i = nodes - 1; i >= 0; --i) {
    total[i] += a[i];
    if (b) other[i] += b[i];
    const up = parent[i] - 1;
    if (up < 0) continue;
    total[up] += total[i];
    if (b) other[up] += other[i];
  }
  // Of two traces a box is as wide as the larger amount, so that what is only in one of them shows.
  const width = b ? new Float64Array(nodes) : total, left = new Float64Array(nodes), filled = new Float64Array(nodes);
  if (b) {
    const inner = new Float64Array(nodes);
    for (let i = nodes - 1; i >= 0; --i) {
      width[i] = Math.max(total[i], other[i], inner[i]);
      if (parent[i]) inner[parent[i] - 1] += width[i];
    }
  }
  for (let i = 0; i < nodes; ++i) {
    const up = parent[i] - 1;
    if (up < 0) continue;
    left[i] = left[up] + filled[up];
    filled[up] += width[i];
  }
  return { total, other, width, left };
}

export class Tree {
  constructor(spec, columns, labels) {
    this.spec = spec;
    this.columns = columns;
    this.parent = columns.parent;  // one more than the number of the parent; 0: none
    this.label = columns.label;
    this.nodes = columns.parent.length;
    this.labels = labels;
    this.levels = labels.level;
    this.depth = new Uint16Array(this.nodes);
    this.deepest = 0;
    for (let i = 1; i < this.nodes; ++i) {
      this.depth[i] = this.depth[this.parent[i] - 1] + 1;
      if (this.depth[i] > this.deepest) this.deepest = this.depth[i];
    }
    // A module is named from the module around it on.
    this.names = [];
    this.around = new Int32Array(this.nodes).fill(-1);
    for (let i = 1; i < this.nodes; ++i) {
      const up = this.parent[i] - 1;
      this.around[i] = this.levels[this.label[up]] === 3 ? up : this.around[up];
    }
  }
  text(i) {
    return this.labels.text.at(this.label[i]);
  }
  name(i) {
    if (this.names[i] === undefined) {
      const text = this.text(i), around = this.around[i];
      this.names[i] = clipped(around >= 0 && this.levels[this.label[i]] === 3 ? relativeModule(text, this.text(around)) : text, 300);
    }
    return this.names[i];
  }
}

export class FlameView {
  constructor(app) {
    this.app = app;
    this.two = app.two;
    this.title = "Call tree";
    this.element = h("section", { class: "view", "aria-label": this.title });
    this.flipped = false;
  }

  async open(wish) {
    if (!this.specs) {
      this.specs = this.app.head.trees;
      this.labels = await readBlock(this.app.head, "labels");
      this.build();
      await this.choose(this.specs[0]);
    }
    if (wish?.query !== undefined) {
      this.search.value = wish.query;
      this.find();
    }
    this.picture.redraw();
  }

  build() {
    const names = { api: "calls", module: "modules", line: "lines" };
    this.kind = h("select", { "aria-label": "What boxes are", onchange: () => this.choose(this.specs[this.kind.selectedIndex]) },
      this.specs.map(spec => h("option", {}, "by " + (names[spec.by] || spec.by))));
    this.weightBox = h("select", { "aria-label": "What widths are", onchange: () => {
      this.weight = this.weightBox.value;
      this.measure();
    } });
    this.search = h("input", { type: "search", class: "search", "aria-label": "Search in the call tree",
      placeholder: "Search: text, or /regular expression/", spellcheck: "false", autocomplete: "off", oninput: () => this.find(),
      onkeydown: event => {
        if (event.key === "Enter") this.nextFound(event.shiftKey);
      } });
    this.found = h("span", { class: "dim", role: "status" });
    this.reset = h("button", { type: "button", onclick: () => this.zoom(0) }, "Whole tree");
    this.turn = h("button", { type: "button", "aria-pressed": "false", onclick: () => {
      this.flipped = !this.flipped;
      this.turn.setAttribute("aria-pressed", this.flipped);
      this.place();
      this.scroll.scrollTop = this.flipped ? this.scroll.scrollHeight : 0;
    } }, "Flames up");
    this.keys = h("span", { class: "keys dim" });
    this.picture = new Picture("Call tree; use the arrow keys", (context, width, height) => this.draw(context, width, height));
    this.spacer = h("div", { class: "flame-spacer" }, this.picture.canvas);
    const { canvas } = this.picture;
    canvas.addEventListener("mousemove", event => this.tell(this.at(event)));
    canvas.addEventListener("mouseleave", () => this.tell(this.cursor ?? -1));
    canvas.addEventListener("click", event => {
      const i = this.at(event);
      if (i < 0) return;
      this.cursor = i;
      this.zoom(i);
    });
    this.scroll = h("div", { class: "flame-scroll", tabindex: "0", role: "application", "aria-label": "Call tree. Arrow keys move, Enter zooms in, Escape zooms out.",
      onscroll: () => this.picture.redraw(), onkeydown: event => this.key(event) }, this.spacer);
    this.detail = h("div", { class: "flame-detail", "aria-live": "polite" });
    replace(this.element,
      h("div", { class: "toolbar" }, this.specs.length > 1 ? this.kind : null, this.weightBox, this.search, this.found, this.turn, this.reset, this.keys),
      this.scroll, this.detail);
  }

  async choose(spec) {
    const columns = await readBlock(this.app.head, spec.block);
    this.tree = new Tree(spec, columns, this.labels);
    const weights = WEIGHTS.filter(([name]) => columns[name]);
    replace(this.weightBox, weights.map(([name, title]) => h("option", { value: name }, "width: " + title)));
    if (!weights.some(([name]) => name === this.weight)) this.weight = (weights.find(([name]) => name === this.tree.spec.weight) || weights[0])[0];
    this.weightBox.value = this.weight;
    const levels = new Set();
    for (const label of columns.label) levels.add(this.labels.level[label]);
    this.levelsShown = [...levels].filter(level => level < LEVEL_NAMES.length).sort();
    this.showKeys();
    this.focus = 0;
    this.cursor = null;
    this.measure();
    if (this.search.value) this.find();
  }
  showKeys() {
    const keys = this.two ? [["less in B", () => differenceColor(-0.8)], ["same", () => differenceColor(0)], ["more in B", () => differenceColor(0.8)]]
      : this.levelsShown.map(level => [LEVEL_NAMES[level], () => levelColor(level)]);
    const paint = () => replace(this.keys, keys.map(([name, color]) => h("span", { class: "key" }, h("i", { style: { background: color() } }), name)),
      this.tree.spec.left_out ? h("span", {}, plural(this.tree.spec.left_out.nodes, "small path") + " left out") : null);
    paint();
    if (!this.painting) addEventListener("themechange", () => this.repaintKeys());
    this.painting = true;
    this.repaintKeys = paint;
  }
  measure() {
    this.places = layout(this.tree, this.weight, this.two);
    this.format = this.weight === "calls" ? value => plural(value, "call")
      : this.weight === "flops" ? value => amount(value, "FLOP") : MEASURES[this.weight].format;
    if (!(this.places.width[this.focus] > 0)) this.focus = 0;
    this.place();
    this.tell(this.cursor ?? -1);
    if (this.search.value) this.find();
  }
  place() {
    this.spacer.style.height = (this.tree.deepest + 1) * ROW + "px";
    this.picture.redraw();
  }
  rowTop(depth) {
    const row = this.flipped ? this.tree.deepest - depth : depth;
    const full = Math.max((this.tree.deepest + 1) * ROW, this.scroll.clientHeight);
    return (this.flipped ? full - (this.tree.deepest + 1) * ROW : 0) + row * ROW - this.scroll.scrollTop;
  }

  color(i) {
    const { total, other } = this.places;
    if (this.mask && this.mask[this.tree.label[i]]) return ink("found");
    if (this.two) return differenceColor((other[i] - total[i]) / Math.max(other[i], total[i], 1e-9));
    return levelColor(this.tree.levels[this.tree.label[i]], this.tree.label[i] + 1);
  }
  // The share that is written into a box: of two traces the difference.
  share(i) {
    const { total, other } = this.places;
    if (!this.two) return percent(total[i] / total[0]);
    if (!total[i]) return "only B";
    if (!other[i]) return "only A";
    return signed(other[i] / total[i] - 1, value => percent(value));
  }

  draw(context, width, height) {
    if (!this.places) return;
    const { tree, places: { left, width: widths }, focus } = this;
    const { depth, parent } = tree, from = left[focus], whole = widths[focus], text = ink("text");
    const around = new Set();
    for (let up = focus; up >= 0; up = parent[up] - 1) around.add(up);
    this.shown = [];
    if (!(whole > 0)) return;
    for (let i = 0; i < tree.nodes; ++i) {
      let x = 0, w = width;
      if (depth[i] <= depth[focus]) {
        if (!around.has(i)) continue;
      } else {
        x = (left[i] - from) / whole * width;
        w = widths[i] / whole * width;
        if (w < 0.4 || x >= width || x + w <= 0) continue;
        if (left[i] < from || left[i] >= from + whole) continue;
      }
      const y = this.rowTop(depth[i]);
      if (y + ROW < 0 || y > height) continue;
      this.shown.push(i, x, y, w);
      context.globalAlpha = depth[i] < depth[focus] ? 0.55 : this.mask && !this.mask[tree.label[i]] ? 0.6 : 1;
      context.fillStyle = this.color(i);
      context.fillRect(x, y, Math.max(w - 1, 0.5), ROW - 1);
      context.globalAlpha = 1;
      if (w > 26) {
        const share = w > 110 ? this.share(i) : "", room = w - 10 - (share ? context.measureText(share).width + 8 : 0);
        context.fillStyle = text;
        context.fillText(fitName(context, tree.name(i), room), x + 5, y + ROW / 2);
        if (share) {
          context.textAlign = "right";
          context.fillText(share, x + w - 6, y + ROW / 2);
          context.textAlign = "left";
        }
      }
      if (i === this.cursor) {
        context.strokeStyle = text;
        context.lineWidth = 2;
        context.strokeRect(x + 1, y + 1, Math.max(w - 3, 1), ROW - 3);
      }
    }
  }
  at(event) {
    const box = this.picture.canvas.getBoundingClientRect(), x = event.clientX - box.left, y = event.clientY - box.top;
    for (let s = 0; s < (this.shown || []).length; s += 4) {
      const [left, top, width] = this.shown.slice(s + 1, s + 4);
      if (y >= top && y < top + ROW && x >= left && x < left + width) return this.shown[s];
    }
    return -1;
  }

  tell(i) {
    if (i < 0 || i === null) {
      replace(this.detail, h("p", { class: "dim" }, "A box is all calls with one path" + (this.two ? ", as wide as the larger of A and B; colours are the difference" : "") +
        ". Click zooms in, Escape zooms out; arrow keys move."));
      return;
    }
    const { tree, places: { total, other } } = this, { columns } = tree, self = columns[this.weight];
    const parts = [];
    if (this.two) parts.push(this.format(total[i]) + " → " + this.format(other[i]), this.share(i));
    else parts.push(this.format(total[i]), percent(total[i] / total[0]) + " of all", "self " + this.format(self[i]));
    if (columns.calls?.[i] && this.weight !== "calls") parts.push(plural(columns.calls[i], "call") + (this.two ? " → " + count(columns.b_calls[i]) : ""));
    if (columns.failed?.[i]) parts.push(count(columns.failed[i]) + " raised or never returned");
    const level = tree.levels[tree.label[i]];
    if (LEVEL_NAMES[level]) parts.push("level " + level + " (" + LEVEL_NAMES[level] + ")");
    const way = [];
    for (let up = i; up > 0; up = tree.parent[up] - 1) way.push(tree.name(up));
    replace(this.detail, h("p", {}, h("strong", {}, clipped(tree.text(i), 2000)), " ", parts.join(" · ")),
      h("p", { class: "dim" }, way.reverse().join(" › ") || "all"));
  }

  zoom(i) {
    if (!(this.places.width[i] > 0)) return;
    this.focus = i;
    const y = this.rowTop(this.tree.depth[i]);
    if (y < 0 || y > this.scroll.clientHeight - 3 * ROW) this.scroll.scrollTop += y - (this.flipped ? this.scroll.clientHeight - 2 * ROW : ROW);
    this.tell(i || -1);
    this.picture.redraw();
  }
  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const { tree } = this, at = this.cursor ?? this.focus, widths = this.places.width;
    const out = this.flipped ? "ArrowDown" : "ArrowUp", into = this.flipped ? "ArrowUp" : "ArrowDown";
    let to = -1;
    if (event.key === out) to = tree.parent[at] - 1;
    else if (event.key === into) {
      for (let i = at + 1; i < tree.nodes; ++i) if (tree.parent[i] - 1 === at && (to < 0 || widths[i] > widths[to])) to = i;
    } else if (event.key === "ArrowRight" || event.key === "ArrowLeft") {
      const step = event.key === "ArrowRight" ? 1 : -1;
      for (let i = at + step; i > 0 && i < tree.nodes; i += step) if (tree.parent[i] === tree.parent[at]) {
        to = i;
        break;
      }
    } else if (event.key === "Enter") return this.zoom(at);
    else if (event.key === "Escape") return this.zoom(Math.max(tree.parent[this.focus] - 1, 0));
    else return;
    event.preventDefault();
    if (to < 0) return;
    this.cursor = to;
    // What is outside of the picture is brought into it.
    while (this.focus > 0 && !this.within(to)) this.focus = tree.parent[this.focus] - 1;
    const y = this.rowTop(tree.depth[to]);
    if (y < 0) this.scroll.scrollTop += y;
    else if (y > this.scroll.clientHeight - ROW) this.scroll.scrollTop += y - this.scroll.clientHeight + ROW;
    this.tell(to);
    this.picture.redraw();
  }
  within(i) {
    for (let up = this.focus; up >= 0; up = this.tree.parent[up] - 1) if (up === i) return true;
    const { left, width } = this.places;
    return left[i] >= left[this.focus] && left[i] < left[this.focus] + width[this.focus] && this.tree.depth[i] > this.tree.depth[this.focus];
  }

  find() {
    const { tree } = this;
    this.mask = labelMask(this.labels.text, this.search.value);
    this.hits = [];
    if (this.mask === undefined) this.found.textContent = "no regular expression";
    else if (!this.mask) this.found.textContent = "";
    else {
      let sum = 0, other = 0, paths = 0;
      // Of nodes in one another the outermost counts.
      const inside = new Uint8Array(tree.nodes);
      for (let i = 1; i < tree.nodes; ++i) {
        const hit = this.mask[tree.label[i]];
        inside[i] = inside[tree.parent[i] - 1];
        if (!hit) continue;
        ++paths;
        this.hits.push(i);
        if (inside[i]) continue;
        inside[i] = 1;
        sum += this.places.total[i];
        if (this.two) other += this.places.other[i];
      }
      this.hits.sort((a, b) => this.places.width[b] - this.places.width[a]);
      this.hit = -1;
      this.found.textContent = plural(paths, "path") + ", " + this.format(sum) + (this.two ? " → " + this.format(other) : ", " + percent(sum / this.places.total[0]));
    }
    this.mask ||= null;
    this.picture.redraw();
  }
  nextFound(back) {
    if (!this.hits?.length) return;
    this.hit = (this.hit + (back ? this.hits.length - 1 : 1)) % this.hits.length;
    this.cursor = this.hits[this.hit];
    this.zoom(this.cursor);
  }
  focusSearch() {
    this.search?.focus();
    this.search?.select();
  }
}

// Which labels match; null if nothing is searched for, undefined for a wrong regular expression.
export function labelMask(texts, wanted) {
  wanted = wanted.trim();
  if (!wanted) return null;
  const mask = new Uint8Array(texts.count), pattern = /^\/(.+?)\/?$/.exec(wanted);
  if (!texts.count) return mask;
  if (!pattern) texts.markContaining(wanted.toLowerCase(), mask, 0, texts.count);
  else {
    try {
      texts.markMatching(new RegExp(pattern[1], "i"), mask, 0, texts.count);
    } catch (error) {
      return undefined;
    }
  }
  return mask;
}
