// Colours for canvases. The page is light or dark as the system is, or as the reader chose.

const wish = matchMedia("(prefers-color-scheme: dark)");
let chosen = null;

export const isDark = () => (chosen === null ? wish.matches : chosen);
const changed = () => dispatchEvent(new Event("themechange"));
wish.addEventListener("change", changed);
export function toggleTheme() {
  chosen = !isDark();
  document.documentElement.style.colorScheme = chosen ? "dark" : "light";
  changed();
}
// Paper is white.
addEventListener("beforeprint", () => { document.documentElement.style.colorScheme = "light"; });
addEventListener("afterprint", () => {
  document.documentElement.style.colorScheme = chosen === null ? "" : chosen ? "dark" : "light";
});

const INK = { text: ["#1d1d1f", "#ececee"], dim: ["#5c5c63", "#a3a3ab"], line: ["#dcdce0", "#3a3a40"],
  accent: ["#1d5fbf", "#7db2ff"], odd: ["#c2410c", "#fb923c"], found: ["#f0abfc", "#a21caf"],
  back: ["#fbfbfa", "#161618"], less: ["#1d5fbf", "#7db2ff"], more: ["#b91c1c", "#fca5a5"],
  faint: ["#eeeef1", "#26262a"], plain: ["#e1e1e6", "#3c3c43"] };
export const ink = name => INK[name][isDark() ? 1 : 0];

const HUES = [205, 265, 18, 145, 42];
// A level's colour, a little different for each label. Thousands of boxes are drawn: colours are kept.
const kept = new Map();
addEventListener("themechange", () => kept.clear());
export function levelColor(level, label = 0) {
  const key = label * 256 + level;
  let color = kept.get(key);
  if (!color) kept.set(key, color = newLevelColor(level, label));
  return color;
}
function newLevelColor(level, label) {
  const dark = isDark(), hue = HUES[level];
  if (hue === undefined) return ink("plain");
  const spread = label ? (label * 47) % 24 - 12 : 0, light = (dark ? 27 : 76) + (label ? (label * 31) % 9 : 4);
  return `hsl(${hue + spread} ${dark ? 40 : 66}% ${light}%)`;
}

export function labelColor(label) {
  return isDark() ? `hsl(${label * 47 % 360} 34% 31%)` : `hsl(${label * 47 % 360} 52% 80%)`;
}

// Less than before is blue, more is red; `share` is -1 to 1.
export function differenceColor(share) {
  const dark = isDark(), size = Math.sqrt(Math.min(1, Math.abs(share)));
  if (size < 0.02) return ink("plain");
  const light = dark ? 26 + 14 * size : 90 - 26 * size;
  return `hsl(${share > 0 ? 4 : 214} ${30 + 45 * size}% ${light}%)`;
}

const SERIES = [["#4c78a8", "#6f9bd1"], ["#f58518", "#f0a04b"], ["#54a24b", "#74c069"], ["#b279a2", "#cf9cc2"],
  ["#9d755d", "#b9937d"], ["#8a8f98", "#8a8f98"], ["#e45756", "#ef8584"], ["#72b7b2", "#8fd0cb"]];
export const series = i => SERIES[i % SERIES.length][isDark() ? 1 : 0];
