// Calls over time, on threads, ranks and streams. The data are a pyramid: a level has the calls that are at least as
// long as its bins and shorter than those of the next, and, merged into bins, all calls shorter than its bins.

import { readBlock } from "./data.js";
import { fit, fitName, h, Picture, replace } from "./dom.js";
import { labelMask } from "./flame.js";
import { clipped, LEVEL_NAMES, percent, plural, short, time, visible } from "./text.js";
import { ink, labelColor, levelColor } from "./theme.js";

const ROW = 17, HEAD = 20, AXIS = 24, GAP = 6;

export class TimelineView {
  constructor(app) {
    this.app = app;
    this.title = "Timeline";
    this.element = h("section", { class: "view", "aria-label": this.title });
  }

  async open(wish) {
    if (!this.columns) {
      this.spec = this.app.head.timeline;
      this.columns = await readBlock(this.app.head, this.spec.block);
      this.labels = await readBlock(this.app.head, "labels");
      this.names = [];
      this.build();
    }
    if (wish?.query !== undefined) {
      this.search.value = wish.query;
      this.find();
    }
    this.picture.redraw();
  }

  build() {
    const { ticks, tracks } = this.spec;
    this.full = Math.max(1, ticks);
    this.from = 0;
    this.span = this.full;
    this.selected = null;
    this.shut = new Set();
    this.search = h("input", { type: "search", class: "search", "aria-label": "Search in the timeline",
      placeholder: "Search: text, or /regular expression/; Enter: next", spellcheck: "false", autocomplete: "off",
      oninput: () => this.find(), onkeydown: event => {
        if (event.key === "Enter") this.next(event.shiftKey ? -1 : 1);
      } });
    this.found = h("span", { class: "dim", role: "status" });
    const button = (title, label, act) => h("button", { type: "button", "aria-label": label, title: label, onclick: act }, title);
    this.picture = new Picture("Timeline; use the keys", (context, width, height) => this.draw(context, width, height));
    this.spacer = h("div", { class: "flame-spacer" }, this.picture.canvas);
    this.scroll = h("div", { class: "flame-scroll", tabindex: "0", role: "application",
      "aria-label": "Timeline. Left and right move, plus and minus zoom, n and p go to the next and the previous call, 0 shows all.",
      onscroll: () => this.picture.redraw(), onkeydown: event => this.key(event) }, this.spacer);
    this.scroll.addEventListener("wheel", event => this.wheel(event), { passive: false });
    const { canvas } = this.picture;
    canvas.addEventListener("pointerdown", event => {
      if (event.button) return;
      this.drag = { x: event.clientX, from: this.from, y: event.clientY, top: this.scroll.scrollTop, moved: false };
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener("pointermove", event => this.moved(event));
    canvas.addEventListener("pointerup", event => {
      if (this.drag && !this.drag.moved) this.click(event);
      this.drag = null;
    });
    canvas.addEventListener("dblclick", event => {
      const item = this.at(event);
      if (item !== null) this.showItem(item);
    });
    canvas.addEventListener("mouseleave", () => this.tell(this.selected));
    this.detail = h("div", { class: "flame-detail", "aria-live": "polite" });
    const left = this.spec.merged_calls;
    replace(this.element,
      h("div", { class: "toolbar" }, this.search, this.found,
        button("−", "Zoom out", () => this.zoom(2)), button("+", "Zoom in", () => this.zoom(0.5)),
        button("All", "Show all", () => this.look(0, this.full)),
        h("span", { class: "keys dim" }, left ? plural(left, "short call") + " shown merged" : "")),
      this.scroll, this.detail);
    this.place();
    this.tell(null);
    tracks.forEach(track => {
      track.name = (this.app.two && track.trace !== undefined ? "AB"[track.trace] + ": " : "") + visible(track.name);
    });
  }
  place() {
    let y = AXIS;
    this.tops = this.spec.tracks.map((track, t) => {
      const top = y;
      y += HEAD + (this.shut.has(t) ? 0 : (track.depth + 1) * ROW) + GAP;
      return top;
    });
    this.spacer.style.height = y + "px";
    this.picture.redraw();
  }
  ns(ticks) {
    return ticks * this.spec.tick_ns;
  }
  name(label) {
    return this.names[label] ??= clipped(this.labels.text.at(label), 300);
  }
  look(from, span) {
    this.span = Math.max(20, Math.min(span, this.full));
    this.from = Math.max(0, Math.min(from, this.full - this.span));
    this.picture.redraw();
  }
  zoom(factor, about = 0.5) {
    const at = this.from + about * this.span, span = Math.max(20, Math.min(this.span * factor, this.full));
    this.look(at - about * span, span);
  }

  // The first item of a range that may reach `ticks`: items of a range begin one after the other.
  firstAt(from, to, ticks) {
    const { start } = this.columns;
    while (from < to) {
      const middle = (from + to) >> 1;
      if (start[middle] < ticks) from = middle + 1;
      else to = middle;
    }
    return from;
  }
  // Calls `visit(item, merged)` for all that is visible of a track, at this zoom.
  eachVisible(track, pixel, visit) {
    const { start, duration } = this.columns, end = this.from + this.span, { levels } = track;
    let finest = 0;
    while (finest < levels.length - 1 && levels[finest].bin_ticks < pixel) ++finest;
    for (let l = levels.length - 1; l >= finest; --l) {
      const { calls: [from, many] } = levels[l], longest = l + 1 < levels.length ? levels[l + 1].bin_ticks : this.full;
      for (let i = this.firstAt(from, from + many, this.from - longest); i < from + many && start[i] < end; ++i) {
        if (start[i] + duration[i] >= this.from) visit(i, false);
      }
    }
    if (!levels.length) return;
    const { merged: [from, many], bin_ticks: bin } = levels[finest];
    for (let i = this.firstAt(from, from + many, this.from - bin); i < from + many && start[i] < end; ++i) visit(i, true);
  }

  draw(context, width, height) {
    const { spec: { tracks }, columns: { start, duration, depth, label, busy }, from, span } = this;
    const pixel = span / width, top = this.scroll.scrollTop, text = ink("text"), dim = ink("dim"), levels = this.labels.level;
    this.shown = [];
    tracks.forEach((track, t) => {
      const y = this.tops[t] - top, high = HEAD + (this.shut.has(t) ? 0 : (track.depth + 1) * ROW);
      if (y + high < AXIS || y > height) return;
      context.fillStyle = ink("faint");
      context.fillRect(0, y, width, HEAD - 2);
      context.fillStyle = text;
      context.font = "600 12px system-ui, sans-serif";
      context.fillText((this.shut.has(t) ? "▸ " : "▾ ") + fit(context, track.name, width - 30), 6, y + HEAD / 2 - 1);
      context.font = "12px system-ui, sans-serif";
      if (this.shut.has(t)) return;
      this.eachVisible(track, pixel, (i, merged) => {
        const row = y + HEAD + depth[i] * ROW;
        if (row + ROW < AXIS || row > height) return;
        let x = (start[i] - from) / pixel, w = duration[i] / pixel;
        if (x < 0) {
          w += x;
          x = 0;
        }
        w = Math.min(w, width - x);
        if (w <= 0) return;
        const hit = this.mask && this.mask[label[i]];
        if (this.mask) context.globalAlpha = hit ? 1 : 0.35;
        context.fillStyle = hit ? ink("found") : track.kind === "steps" ? (label[i] % 2 ? ink("plain") : ink("line"))
          : track.kind === "stream" ? labelColor(label[i]) : levelColor(levels[label[i]], label[i] + 1);
        if (merged) {
          // As high as the part of the time that is filled.
          const part = Math.max(3, busy[i] / 255 * (ROW - 2));
          context.fillRect(x, row + ROW - 2 - part, Math.max(w - 0.5, 0.7), part);
        } else {
          context.fillRect(x, row, Math.max(w - 1, 0.7), ROW - 2);
          if (w > 24) {
            context.fillStyle = text;
            const long = w > 150 ? time(this.ns(duration[i])) : "", name = this.name(label[i]);
            const room = w - 8 - (long ? context.measureText(long).width + 8 : 0);
            context.fillText(fitName(context, name, room), x + 4, row + ROW / 2 - 1);
            if (long) {
              context.textAlign = "right";
              context.fillText(long, x + w - 5, row + ROW / 2 - 1);
              context.textAlign = "left";
            }
          }
        }
        context.globalAlpha = 1;
        this.shown.push(i, x, row, Math.max(w, 2), merged ? 1 : 0);
        if (i === this.selected) {
          context.strokeStyle = text;
          context.lineWidth = 2;
          context.strokeRect(x + 1, row + 1, Math.max(w - 3, 2), ROW - 4);
        }
      });
    });
    // The axis stays at the top.
    context.fillStyle = ink("back");
    context.fillRect(0, 0, width, AXIS);
    context.fillStyle = dim;
    const step = niceStep(this.ns(span) / Math.max(2, width / 110));
    for (let at = Math.ceil(this.ns(from) / step) * step; at <= this.ns(from + span); at += step) {
      const x = (at / this.spec.tick_ns - from) / pixel;
      context.fillRect(x, AXIS - 6, 1, 6);
      if (x < width - 60) context.fillText(short(time(Math.round(at))), x + 4, AXIS / 2 - 1);
    }
    context.fillRect(0, AXIS - 1, width, 1);
  }

  at(event) {
    const box = this.picture.canvas.getBoundingClientRect(), x = event.clientX - box.left, y = event.clientY - box.top;
    if (y < AXIS) return null;
    for (let s = 0; s < (this.shown || []).length; s += 5) {
      if (y >= this.shown[s + 2] && y < this.shown[s + 2] + ROW && x >= this.shown[s + 1] - 1 && x < this.shown[s + 1] + this.shown[s + 3] + 1) return this.shown[s];
    }
    return null;
  }
  moved(event) {
    if (this.drag) {
      const along = event.clientX - this.drag.x, across = event.clientY - this.drag.y;
      if (Math.abs(along) + Math.abs(across) > 3) this.drag.moved = true;
      if (!this.drag.moved) return;
      this.look(this.drag.from - along / this.picture.canvas.clientWidth * this.span, this.span);
      this.scroll.scrollTop = this.drag.top - across;
    } else this.tell(this.at(event) ?? this.selected);
  }
  click(event) {
    const y = event.clientY - this.picture.canvas.getBoundingClientRect().top + this.scroll.scrollTop;
    const t = this.tops.findIndex(top => y >= top && y < top + HEAD);
    if (t >= 0) {
      if (!this.shut.delete(t)) this.shut.add(t);
      this.place();
      return;
    }
    this.selected = this.at(event);
    this.tell(this.selected);
    this.picture.redraw();
  }
  wheel(event) {
    const box = this.picture.canvas.getBoundingClientRect();
    if (event.ctrlKey || event.metaKey) {
      event.preventDefault();
      this.zoom(Math.exp(Math.max(-100, Math.min(100, event.deltaY)) / 150), (event.clientX - box.left) / box.width);
    } else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      event.preventDefault();
      this.look(this.from + (event.deltaX || event.deltaY) / box.width * this.span, this.span);
    }
  }
  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const acts = { ArrowLeft: () => this.look(this.from - this.span / 5, this.span), ArrowRight: () => this.look(this.from + this.span / 5, this.span),
      a: () => acts.ArrowLeft(), d: () => acts.ArrowRight(), w: () => this.zoom(0.6), s: () => this.zoom(1 / 0.6),
      "+": () => this.zoom(0.6), "=": () => this.zoom(0.6), "-": () => this.zoom(1 / 0.6), 0: () => this.look(0, this.full),
      n: () => this.next(1), p: () => this.next(-1), Escape: () => {
        this.selected = null;
        this.tell(null);
        this.picture.redraw();
      }, Enter: () => this.selected !== null && this.showItem(this.selected) };
    if (!acts[event.key]) return;
    acts[event.key]();
    event.preventDefault();
    event.stopPropagation();
  }

  // Which range of which track an item belongs to.
  rangeOf(item) {
    for (const track of this.spec.tracks) for (const level of track.levels) for (const merged of [false, true]) {
      const [from, many] = merged ? level.merged : level.calls;
      if (item >= from && item < from + many) return { track, merged };
    }
    return null;
  }
  showItem(item) {
    const { start, duration, depth } = this.columns, { track } = this.rangeOf(item);
    this.selected = item;
    this.look(start[item] - duration[item] * 0.5, Math.max(duration[item] * 2, 50));
    const t = this.spec.tracks.indexOf(track), y = this.tops[t] + HEAD + depth[item] * ROW;
    if (y < this.scroll.scrollTop + AXIS || y > this.scroll.scrollTop + this.scroll.clientHeight - ROW) this.scroll.scrollTop = y - 3 * ROW - AXIS;
    this.tell(item);
  }
  // The next call in time (that matches), on any track.
  next(step) {
    const { start, label } = this.columns, now = this.selected === null ? (step > 0 ? -1 : Infinity) : start[this.selected];
    let best = null;
    for (const track of this.spec.tracks) for (const { calls: [from, many] } of track.levels) {
      if (track.kind === "steps" && this.mask === null) continue;
      let i = this.firstAt(from, from + many, step > 0 ? now + (this.selected === null ? 0 : 1e-9) : now);
      if (step < 0) --i;
      for (; i >= from && i < from + many; i += step) {
        if (i === this.selected || (step > 0 && start[i] <= now) || (this.mask && !this.mask[label[i]])) continue;
        if (best === null || (step > 0 ? start[i] < start[best] : start[i] > start[best])) best = i;
        break;
      }
    }
    if (best !== null) this.showItem(best);
  }
  find() {
    this.mask = labelMask(this.labels.text, this.search.value);
    if (this.mask === undefined) this.found.textContent = "no regular expression";
    else if (!this.mask) this.found.textContent = "";
    else {
      let calls = 0;
      const { label } = this.columns;
      for (const { levels } of this.spec.tracks) for (const { calls: [from, many] } of levels) {
        for (let i = from; i < from + many; ++i) if (this.mask[label[i]]) ++calls;
      }
      this.found.textContent = plural(calls, "call") + (this.spec.merged_calls ? ", and what is merged" : "");
    }
    this.mask ||= null;
    this.picture.redraw();
  }
  tell(item) {
    if (item === null) {
      replace(this.detail, h("p", { class: "dim" }, "Drag moves, Ctrl and the wheel zoom, a double click shows a call; keys: ← → + − 0, n and p for the next and the previous call."));
      return;
    }
    const { start, duration, label, count: counts, busy, call } = this.columns, { track, merged } = this.rangeOf(item);
    const level = this.labels.level[label[item]], parts = [];
    if (merged) parts.push(plural(counts[item], "call"), percent(busy[item] / 255) + " busy in " + time(this.ns(duration[item])));
    else {
      parts.push(time(this.ns(duration[item])));
      if (call && track.kind === "thread") parts.push("call " + call[item]);
    }
    parts.push("at " + time(this.ns(start[item])));
    if (LEVEL_NAMES[level]) parts.push("level " + level + " (" + LEVEL_NAMES[level] + ")");
    replace(this.detail, h("p", {}, merged ? "mostly " : "", h("strong", {}, clipped(this.labels.text.at(label[item]), 2000)), " ", parts.join(" · ")),
      h("p", { class: "dim" }, track.name));
  }
  focusSearch() {
    this.search?.focus();
    this.search?.select();
  }
}

export function niceStep(least) {
  const power = 10 ** Math.floor(Math.log10(Math.max(least, 1)));
  for (const factor of [1, 2, 5, 10]) if (power * factor >= least) return power * factor;
  return power * 10;
}
