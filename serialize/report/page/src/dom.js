// Elements. Texts become text nodes and nothing else: this page makes no element from text.

import { lastPart } from "./text.js";

export function h(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "class") element.className = value;
    else if (name === "style") Object.assign(element.style, value);
    else if (name === "value" || name === "checked" || name === "disabled") element[name] = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(9).filter(child => child !== null && child !== undefined && child !== false));
  return element;
}

export function replace(element, ...children) {
  element.replaceChildren(...children.flat(9).filter(child => child !== null && child !== undefined && child !== false));
  return element;
}

// Calls `act` once after the last of many calls, when the browser next draws.
export function onceADraw(act) {
  let waiting = false;
  return () => {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => {
      waiting = false;
      act();
    });
  };
}

export function later(act, milliseconds) {
  let timer = 0;
  return (...values) => {
    clearTimeout(timer);
    timer = setTimeout(() => act(...values), milliseconds);
  };
}

export const pause = () => new Promise(done => setTimeout(done, 0));

// A canvas that is as large as its host, in device pixels. `draw(context, width, height)` fills it.
export class Picture {
  constructor(label, draw) {
    this.draw = draw;
    this.canvas = h("canvas", { role: "img", "aria-label": label });
    this.redraw = onceADraw(() => this.paint());
    new ResizeObserver(this.redraw).observe(this.canvas);
    addEventListener("themechange", this.redraw);
  }
  paint() {
    const width = this.canvas.clientWidth, height = this.canvas.clientHeight, scale = devicePixelRatio || 1;
    if (!width || !height) return;
    if (this.canvas.width !== Math.round(width * scale)) this.canvas.width = Math.round(width * scale);
    if (this.canvas.height !== Math.round(height * scale)) this.canvas.height = Math.round(height * scale);
    const context = this.canvas.getContext("2d");
    context.setTransform(scale, 0, 0, scale, 0, 0);
    context.clearRect(0, 0, width, height);
    context.textBaseline = "middle";
    context.font = "12px system-ui, sans-serif";
    this.draw(context, width, height);
  }
}

// A button with a panel below it, which `fill(panel)` fills whenever it opens.
let panels = 0;
export function dropdown(title, fill) {
  const id = "panel-" + ++panels;
  const panel = h("div", { id, class: "panel", popover: "auto" });
  const button = h("button", { type: "button", class: "drop", popovertarget: id }, title);
  panel.addEventListener("beforetoggle", event => {
    if (event.newState !== "open") return;
    fill(panel);
    const box = button.getBoundingClientRect();
    panel.style.top = box.bottom + 4 + "px";
    panel.style.maxHeight = Math.max(160, innerHeight - box.bottom - 20) + "px";
    panel.style.left = Math.max(8, Math.min(box.left, innerWidth - 340)) + "px";
  });
  panel.addEventListener("toggle", event => {
    if (event.newState === "open") panel.querySelector("input")?.focus();
  });
  return { button, panel };
}

// As much of a name as fits a width of a canvas: all, else its last part, else the beginning of that.
export function fitName(context, name, width) {
  const text = fit(context, name, width);
  return text === name ? text : fit(context, lastPart(name), width);
}
const widths = new Map();
export function fit(context, text, width) {
  if (width < 14) return "";
  const most = Math.ceil(width / 3);
  if (text.length > most) text = text.slice(0, most);
  let size = widths.get(text);
  if (size === undefined) {
    if (widths.size > 20000) widths.clear();
    widths.set(text, size = context.measureText(text).width);
  }
  if (size <= width) return text;
  let keep = Math.floor(text.length * width / size) - 1;
  while (keep > 1 && context.measureText(text.slice(0, keep) + "…").width > width) --keep;
  return keep > 1 ? text.slice(0, keep) + "…" : "";
}
