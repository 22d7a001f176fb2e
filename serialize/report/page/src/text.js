// Texts and numbers as a person reads them.

// Characters that have no picture, or change the direction of the text around them, are shown as escapes.
const UNSEEN = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}\u115f\u1160\u3164\uffa0]/gu;
const SHORT = { 9: "\\t", 10: "\\n", 13: "\\r" };
// More than a few marks on one letter would cover the lines around it.
const MARKS = /(\p{M}{4})(\p{M}+)/gu;
export function visible(text) {
  return text.replace(MARKS, (all, few, more) => few + "(" + more.length + " marks)").replace(UNSEEN, character => {
    const point = character.codePointAt(0), code = point.toString(16);
    if (SHORT[point]) return SHORT[point];
    if (code.length <= 2) return "\\x" + code.padStart(2, "0");
    return code.length <= 4 ? "\\u" + code.padStart(4, "0") : "\\u{" + code + "}";
  });
}

export function clipped(text, most) {
  return visible(text.length > most ? text.slice(0, most) + "…" : text);
}

const whole = new Intl.NumberFormat("en");
export function count(value) {
  return whole.format(Math.round(value));
}
export function plural(value, one, many = one + "s") {
  return count(value) + " " + (value === 1 ? one : many);
}

function scaled(value, units) {
  const size = Math.abs(value);
  for (const [unit, scale] of units) {
    // 999.96 would be 1000 of the smaller unit.
    if (size >= scale * 0.9995) return threeDigits(value / scale) + " " + unit;
  }
  return null;
}
function threeDigits(value) {
  const size = Math.abs(value);
  return size >= 999.5 ? whole.format(Math.round(value)) : value.toPrecision(3);
}

const TIMES = [["s", 1e9], ["ms", 1e6], ["us", 1e3]];
export function time(ns) {
  if (ns !== ns) return "-";
  if (!ns) return "0";
  if (Math.abs(ns) >= 6e11) return threeDigits(ns / 6e10) + " min";
  return scaled(ns, TIMES) ?? Math.round(ns) + " ns";
}
// Amounts of an axis: "1 ms" for "1.00 ms".
export function short(text) {
  return text.replace(/(\.\d*?)0+(?=\D|$)/, "$1").replace(/\.(?=\D|$)/, "");
}
const DECIMALS = [["P", 1e15], ["T", 1e12], ["G", 1e9], ["M", 1e6], ["k", 1e3]];
export function amount(value, unit) {
  if (!value) return "0";
  return (scaled(value, DECIMALS) ?? Math.round(value) + " ") + unit;
}
export const bytes = value => amount(value, "B");

export function number(value) {
  if (!Number.isFinite(value)) return String(value);
  return Number.isInteger(value) && Math.abs(value) < 1e6 ? String(value) : String(Number(value.toPrecision(5)));
}
export function percent(share) {
  const value = 100 * share, size = Math.abs(value);
  if (!Number.isFinite(value)) return "";
  if (value === 0) return "0 %";
  if (size > 0 && size < 0.01) return (value < 0 ? "-" : "") + "<0.01 %";
  return value.toFixed(size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2) + " %";
}
export function signed(value, format) {
  return (value > 0 ? "+" : value < 0 ? "−" : "") + format(Math.abs(value));
}

export const LEVEL_NAMES = ["setattr", "function", "dispatch", "frame", "record"];

// The last part of a name, for where the whole has no room: "linear" of "torch.nn.functional.linear".
export function lastPart(name) {
  const operator = /^(?:[\w.]*::)+(?:evaluate_function: )?(.+)$/s.exec(name);
  if (operator) return operator[1];
  if (name.startsWith(".")) return name.replace(/ \(.*$/s, "");
  const dotted = /^[\w.]+\.(\w+)$/.exec(name);
  return dotted ? dotted[1] : name.replace(/ \(.*$/s, "");
}

// What a module's call is named below `outer`: "layers.0.fc" in "layers.0" is ".fc".
export function relativeModule(name, outer) {
  const path = outer.replace(/ \(.*$/s, "");
  return path && name.startsWith(path + ".") ? name.slice(path.length) : name;
}
