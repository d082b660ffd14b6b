// SPDX-License-Identifier: Apache-2.0
// The page of web/index.html with the executable in place of its WebAssembly and a document of a few lines in place of a
// browser's: what the page reads from answers is there, what it shows is what the command line says. How it looks, and the
// WebAssembly itself, are judged in Chromium (web_test.py).
//
//   node tests/web/page_test.mjs build/release/plansearch
import assert from "node:assert/strict";
import {execFile, execFileSync} from "node:child_process";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import vm from "node:vm";

const [binary] = process.argv.slice(2).map(name => path.resolve(name));
const html = fs.readFileSync(new URL("../../web/index.html", import.meta.url), "utf8");
const folder = fs.mkdtempSync(path.join(os.tmpdir(), "plansearch-page-"));
const environment = {...process.env, COLUMNS: "140", NO_COLOR: "1", TERM: "dumb"};

class Element {
  constructor(tag) { Object.assign(this, {tag, children: [], attributes: {}, listeners: {}, dataset: {}, hidden: false, disabled: false, className: ""}); }
  classList = {add: () => {}, remove: () => {}};
  get textContent() { return this.children.map(child => child.textContent ?? child).join(""); }
  set textContent(text) { this.children = text === "" ? [] : [String(text)]; }
  get text() { return this.textContent; }
  get value() { return this.typed ?? this.attributes.value ?? (this.tag === "select" ? this.options[0]?.value : this.tag === "option" ? this.text : ""); }
  set value(value) { this.typed = String(value); }
  get open() { return this.opened ?? false; }
  set open(open) { if (open !== this.open) { this.opened = open; this.dispatch("toggle"); } }
  get options() { return this.children; }
  append(...added) { this.children.push(...added); }
  replaceChildren(...added) { this.children = added; }
  setAttribute(name, value) { this.attributes[name] = String(value); }
  addEventListener(name, call) { (this.listeners[name] ??= []).push(call); }
  dispatch(name) { for (const call of this.listeners[name] ?? []) call({preventDefault() {}, target: this}); }
  click() { this.dispatch("click"); }
  requestSubmit() { this.dispatch("submit"); }
  focus() {}
  all(tag) { return this.children.flatMap(child => child instanceof Element ? [...(child.tag === tag ? [child] : []), ...child.all(tag)] : []); }
}

// Answers as the worker of the page does.
class Program {
  folder = fs.mkdtempSync(path.join(folder, "worker-"));
  constructor() { fs.mkdirSync(path.join(this.folder, "own")); }
  postMessage({module, id, arguments: words, read = [], write = {}}) {
    if (module) return setImmediate(() => this.onmessage({data: {ready: true}}));
    const own = word => word.startsWith("/") ? this.folder + word : word;
    for (const [name, text] of Object.entries(write)) fs.writeFileSync(own(name), text);
    for (const name of read) fs.rmSync(own(name), {force: true});
    this.running = execFile(binary, words.map(own), {env: environment, maxBuffer: 1 << 28}, (error, out, err) => {
      if (this.ended) return;
      const files = Object.fromEntries(read.filter(name => fs.existsSync(own(name))).map(name => [name, fs.readFileSync(own(name), "utf8")]));
      const plain = text => text.replaceAll(this.folder, "").trimEnd();
      this.onmessage({data: {id, code: error ? error.code : 0, out: plain(out), err: plain(err), files}});
    });
  }
  terminate() { this.ended = true; this.running?.kill("SIGKILL"); }
}

function open(hash = "") {
  const elements = {}, root = new Element("html");
  for (const [, tag, attributes, id] of html.matchAll(/<(\w+)([^>]*?\bid="(\w+)"[^>]*)>/g)) {
    elements[id] = new Element(tag);
    elements[id].hidden = /\bhidden\b/.test(attributes);
    const inner = tag === "select" ? html.split(`id="${id}"`)[1].split("</select>")[0] : "";
    for (const [, value, text] of inner.matchAll(/<option(?: value="(\w*)")?>([^<]*)/g)) {
      const option = new Element("option");
      option.textContent = text;
      if (value !== undefined) option.setAttribute("value", value);
      elements[id].append(option);
    }
  }
  const location = {hash, href: "http://page/" + hash};
  const reply = {ok: true, text: async () => "", arrayBuffer: async () => new ArrayBuffer(0)};
  const page = vm.createContext({
    document: {getElementById: id => { assert(elements[id], `no element ${id}`); return elements[id]; }, createElement: tag => new Element(tag),
               querySelectorAll: () => [], addEventListener() {}, documentElement: root},
    location, history: {replaceState(_, __, next) { location.hash = next; }}, navigator: {}, addEventListener() {}, performance, URLSearchParams, setTimeout,
    fetch: async () => reply, WebAssembly: {compile: async () => ({})}, URL: {createObjectURL: () => "blob:", revokeObjectURL() {}}, Blob: class {}, Worker: Program, console});
  vm.runInContext(html.split("<script>")[1].split("</script>")[0], page);
  return {elements, location, root, run: code => vm.runInContext(code, page)};
}
async function until(condition, what) {
  for (const end = Date.now() + 120_000; !condition(); await new Promise(done => setTimeout(done, 10))) assert(Date.now() < end, `${what} does not come`);
}
async function ask(page, fields) {
  for (const [id, value] of Object.entries(fields)) page.elements[id].value = value;
  page.elements.form.requestSubmit();
  return verdict(page);
}
async function verdict({elements}) {
  await until(() => elements.verdict.textContent !== "" && !elements.ask.disabled, "a verdict");
  return elements.verdict.textContent;
}
const shell = (...words) => { try { return execFileSync(binary, words, {env: environment, encoding: "utf8", stdio: "pipe"}); } catch (error) { return error.stdout; } };

const tests = {
  async "a verdict is that of the command line"() {
    const page = open(), {elements} = page;
    await until(() => page.root.dataset.ready === "yes", "the page");
    assert(elements.models.children.length > 100 && elements.machines.children.length > 50);
    const text = await ask(page, {model: "llama3.1-8b", method: "lora", machine: "rtx-4090", gpus: "2", tokens: "1B"});
    const words = ["fits", "llama3.1-8b", "--method", "lora", "--on", "rtx-4090", "--gpus", "2", "--tokens", "1B"];
    assert.equal(text, JSON.parse(shell(...words, "--no-cards", "--format", "json")).verdict);
    assert.equal(elements.command.textContent.split("\n")[0], "plansearch " + words.join(" "));
    const search = elements.command.textContent.split("\n")[1].split(" ").slice(1);
    assert.match(shell(...search), /plans in space/);
    assert(elements.plans.all("tr").length > 1 && elements.bar.children.length > 3);
    assert(elements.plans.all("td").every(cell => !/NaN|undefined|null/.test(cell.textContent)));
    for (const id of ["asked", "assumed", "notes", "legend"]) assert.doesNotMatch(elements[id].textContent, /NaN|undefined|null/);
    await until(() => /torchrun|accelerate/.test(elements.launcher.textContent), "the script of plan 1");
    elements.why.open = true;
    await until(() => elements.page.srcdoc?.includes("<html"), "pictures");
    assert(!elements.save.hidden && elements.save.href === "blob:");
    elements.cards.open = true;
    await until(() => elements.matrix.all("tr").length > 30 && !elements.ask.disabled, "the cards");
    assert(elements.matrix.all("td").every(cell => !/\.\.\.|undefined/.test(cell.textContent)));
  },
  async "a way out is one click away"() {
    const page = open("#model=llama3.1-8b&method=lora&machine=rtx-4090&gpus=1"), {elements} = page;
    assert.match(await verdict(page), /^does not fit on 1 x rtx-4090 /);
    const found = elements.hints.children.map(item => [item.textContent, item.all("button")[0]]).filter(([text]) => text.includes(" it fits"));
    assert(found.length > 0 && found.every(([, button]) => button), "a way out without its button");
    found[0][1].click();
    assert.match(await verdict(page), /^fits on /);
    elements.other.value = "";
    await ask(page, {gpus: "1", seq: "", method: "lora"});
    elements.anyway.click();
    await until(() => elements.verdict.textContent.includes("priced all the same"), "the price");
  },
  async "what is wrong is said in place"() {
    const page = open();
    await until(() => page.root.dataset.ready === "yes", "the page");
    assert.match(await ask(page, {model: "gpt2", machine: "nope"}), /unknown hardware profile 'nope'/);
    assert.match(await ask(page, {model: "8B", machine: "h100"}), /unknown model '8B' did you mean .*-8b/);
    page.elements.near.children[0].click();
    assert.match(await verdict(page), /^fits on /);
    page.run(`ownModel = {name: "config.json", text: '{"model_type": "llama", "num_hidden_layers": 2, "num_attention_heads": 8,\\n "hidden_size": -3, "vocab_size": 100, "intermediate_size": 64}'}`);
    assert.match(await ask(page, {model: "config.json"}), /^config\.json:2:/);
  },
  async "a search is stopped"() {
    const page = open("#model=deepseek-v3&machine=h100&gpus=2048"), {elements} = page;
    await until(() => !elements.stop.hidden && elements.status.textContent === "searching", "a search");
    elements.stop.click();
    await until(() => elements.status.textContent === "stopped", "the stop");
    assert.match(await ask(page, {model: "gpt2", gpus: "1"}), /^fits on 1 x h100/);
  },
};

let failed = 0;
for (const [name, test] of Object.entries(tests)) {
  try { await test(); console.log(`ok: ${name}`); } catch (error) { ++failed; console.log(`failed: ${name}\n${error.stack}`); }
}
fs.rmSync(folder, {recursive: true});
process.exit(failed ? 1 : 0);
