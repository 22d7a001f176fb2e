// Bundles src/ into report.html, the page without data: `npm ci && npm run build` in this folder.
import { createHash } from "node:crypto";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { build } from "esbuild";

const here = new URL(".", import.meta.url).pathname;
const options = { bundle: true, minify: true, charset: "utf8", lineLimit: 118, legalComments: "inline", write: false,
  target: ["chrome123", "firefox120", "safari17.5"], absWorkingDir: here };
const bundle = async entry => (await build({ ...options, entryPoints: ["src/" + entry], format: "iife" })).outputFiles[0].text;
// One newline at the end of each element's text, and no space at the end of a line.
const tidy = text => "\n" + text.replace(/[ \t]+$/gm, "").trim() + "\n";
const script = tidy(await bundle("main.js")), style = tidy(await bundle("page.css"));
for (const [name, text] of [["script", script], ["style", style]]) {
  if (/<\/(script|style)|<!--|\)torchtrace"|\t/i.test(text)) throw new Error("the " + name + " holds what would end it");
}
// Element.innerHTML and the like are the way from a trace's text to an element.
const unsafe = /innerHTML|outerHTML|insertAdjacentHTML|document\.write|createContextualFragment|setHTMLUnsafe|DOMParser|\beval\(|new Function/.exec(script);
if (unsafe) throw new Error("the script has " + unsafe[0]);
const hash = text => "'sha256-" + createHash("sha256").update(text).digest("base64") + "'";
const policy = "default-src 'none'; script-src " + hash(script) + "; style-src " + hash(style) + "; base-uri 'none'; form-action 'none'";
// page_test.py compares it with src/, so that a forgotten build is seen without node.
const sources = createHash("sha256");
for (const name of readdirSync(here + "src").sort()) sources.update(name + "\n").update(readFileSync(here + "src/" + name));
// As functions: `$&` in a text has no meaning.
const page = readFileSync(here + "src/page.html", "utf8").replace("@SOURCES@", () => sources.digest("hex")).replace("@POLICY@", () => policy).replace("@STYLE@", () => style).replace("@SCRIPT@", () => script);
writeFileSync(here + "report.html", page);
console.log("report.html: " + page.length + " characters");
