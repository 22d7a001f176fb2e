// Bars of steps and areas of memory.

import { fit, h, Picture } from "./dom.js";
import { ink, series } from "./theme.js";
import { short, time } from "./text.js";
import { niceStep } from "./timeline.js";

const LEFT = 72, BOTTOM = 20, TOP = 20;

// Lines at round amounts, with their texts. Returns the scale.
function axis(context, width, height, most, format) {
  const high = height - TOP - BOTTOM;
  const step = niceStep(Math.max(most, 1e-9) / Math.max(1, Math.floor(high / 34)));
  context.textAlign = "right";
  for (let at = 0; at <= most * 1.0001; at += step) {
    const y = TOP + high - at / most * high;
    context.fillStyle = ink("line");
    context.fillRect(LEFT, Math.round(y), width - LEFT - 4, 1);
    context.fillStyle = ink("dim");
    context.fillText(short(format(at)), LEFT - 6, y);
  }
  context.textAlign = "left";
  return high;
}

// Bars in the order of rows. More bars than pixels: each pixel has its highest.
export class Bars {
  constructor(label, onPick) {
    this.data = null;
    this.selected = -1;
    this.picture = new Picture(label, (context, width, height) => this.draw(context, width, height));
    this.picture.canvas.className = "chart";
    this.picture.canvas.addEventListener("click", event => {
      const row = this.rowAt(event);
      if (row >= 0) onPick(row);
    });
  }
  // { count, value(i), other(i) or null, odd(i), name(i), format }
  show(data) {
    this.data = data;
    this.picture.redraw();
  }
  rowAt(event) {
    const box = this.picture.canvas.getBoundingClientRect(), { count } = this.data;
    const i = Math.floor((event.clientX - box.left - LEFT) / (box.width - LEFT - 4) * count);
    return i >= 0 && i < count ? i : -1;
  }
  draw(context, width, height) {
    if (!this.data || !this.data.count) return;
    const { count, value, other, odd, name, format } = this.data;
    let most = 0;
    for (let i = 0; i < count; ++i) most = Math.max(most, value(i) || 0, other ? other(i) || 0 : 0);
    if (!most) return;
    const high = axis(context, width, height, most, format), room = width - LEFT - 4, each = room / count;
    const bar = (i, amount, color, x, w) => {
      const size = amount / most * high;
      context.fillStyle = color;
      context.fillRect(x, TOP + high - size, w, size);
    };
    const wide = Math.max(each - (each > 4 ? 1 : 0), 0.8), pixels = Math.ceil(room);
    if (count <= pixels) {
      for (let i = 0; i < count; ++i) {
        const x = LEFT + i * each;
        if (other) {
          bar(i, value(i) || 0, series(5), x, wide / 2);
          bar(i, other(i) || 0, series(0), x + wide / 2, wide / 2);
        } else bar(i, value(i) || 0, i === this.selected ? ink("text") : odd(i) ? ink("odd") : series(0), x, wide);
      }
    } else {
      for (let p = 0; p < pixels; ++p) {
        const first = Math.floor(p / pixels * count), last = Math.max(first + 1, Math.floor((p + 1) / pixels * count));
        let top = first;
        for (let i = first; i < last; ++i) if ((value(i) || 0) > (value(top) || 0)) top = i;
        bar(top, value(top) || 0, odd(top) ? ink("odd") : series(0), LEFT + p, 1);
      }
    }
    context.fillStyle = ink("dim");
    context.textAlign = "center";
    const every = Math.max(1, Math.ceil(count / (room / 64)));
    for (let i = 0; i < count; i += every) context.fillText(fit(context, name(i), 62), Math.min(LEFT + (i + 0.5) * each, width - 33), height - BOTTOM / 2);
    context.textAlign = "left";
  }
}

// Amounts on top of each other over time.
export class Areas {
  constructor(label) {
    this.picture = new Picture(label, (context, width, height) => this.draw(context, width, height));
    this.picture.canvas.className = "chart";
  }
  // { at: ticks, layers: [{ name, values }], from, to, format, tick: nanoseconds, peak: { at, value, text } }
  show(data) {
    this.data = data;
    this.picture.redraw();
  }
  draw(context, width, height) {
    if (!this.data) return;
    const { at, layers, from, to, format, tick, peak } = this.data, count = at.length;
    const base = new Float64Array(count), tops = [];
    for (const { values } of layers) {
      for (let i = 0; i < count; ++i) base[i] += values[i];
      tops.push(base.slice());
    }
    const most = Math.max(peak ? peak.value : 0, ...base.length ? [base.reduce((a, b) => Math.max(a, b), 0)] : [0]);
    if (!most) return;
    const high = axis(context, width, height, most, format), room = width - LEFT - 4;
    const x = ticks => LEFT + (ticks - from) / Math.max(1, to - from) * room, y = value => TOP + high - value / most * high;
    for (let l = layers.length - 1; l >= 0; --l) {
      context.beginPath();
      context.moveTo(x(at[0]), y(0));
      for (let i = 0; i < count; ++i) {
        context.lineTo(x(at[i]), y(i ? tops[l][i - 1] : 0));
        context.lineTo(x(at[i]), y(tops[l][i]));
      }
      context.lineTo(x(to), y(tops[l][count - 1]));
      context.lineTo(x(to), y(0));
      context.fillStyle = series(l);
      context.fill();
    }
    context.fillStyle = ink("dim");
    const step = niceStep((to - from) * tick / Math.max(1, room / 90)) / tick;
    context.textAlign = "center";
    for (let ticks = Math.ceil(from / step) * step; ticks <= to; ticks += step) {
      if (x(ticks) < width - 20) context.fillText(short(time(Math.round(ticks * tick))), x(ticks), height - BOTTOM / 2);
    }
    context.textAlign = "left";
    if (peak) {
      const px = x(peak.at), py = y(peak.value);
      context.fillStyle = ink("text");
      context.beginPath();
      context.arc(px, py, 4, 0, 7);
      context.fill();
      const left = px > width * 0.6;
      context.textAlign = left ? "right" : "left";
      context.font = "600 12px system-ui, sans-serif";
      context.fillText(peak.text, px + (left ? -8 : 8), Math.max(py - 8, 8));
      context.font = "12px system-ui, sans-serif";
      context.textAlign = "left";
    }
  }
}

export function legend(names, colorOf) {
  return h("p", { class: "keys" }, names.map((name, i) => h("span", { class: "key" }, h("i", { style: { background: colorOf(i) } }), name)));
}
