// The try-it page: drop a picture, see what a model finds in it and where the time went.

import { ask } from "./ask.js";
import { bar, caption, colour, h, ms, picture, s, score, split } from "./draw.js";

const last = { file: null, bitmap: null, words: null, error: "" };
let turn = 0; // an answer that comes after a newer question is forgotten

export function tryView(models, wanted) {
  const ready = models.filter((model) => model.state === "READY");
  const some = ready.filter((model) => model.takes_pictures);
  if (!some.length) return [h("h1", {}, "Try it"), h("p", { class: "card" }, "No model here takes pictures.")];
  const chosen = some.find((model) => model.name === wanted) ?? some[0];
  const results = h("div", { class: "card" });
  const canvas = h("canvas", { role: "img", "aria-label": "The picture with what was found" });
  const file = h("input", { type: "file", accept: "image/*", hidden: "", id: "file" });
  const hint = h("div", {},
    s("svg", { viewBox: "0 0 24 24" }, s("path", { d: "M4 16v3a1 1 0 0 0 1 1h14a1 1 0 0 0 1-1v-3M12 15V4M7 9l5-5 5 5" })),
    h("p", {}, h("b", {}, "Drop a picture here"), ", paste one, or click to choose"),
    h("p", { class: "small" }, "It goes to this server and nowhere else."));
  const drop = h("div", { class: "drop", tabindex: 0, role: "button", "aria-label": "Choose a picture" }, hint, canvas);
  const threshold = h("input", { type: "range", min: 0, max: 1, step: 0.05, value: 0.25, id: "threshold" });
  const auto = h("span", {}, "automatic");
  const slider = h("label", {}, "Least score: ", auto, threshold);
  let limit = null;

  function show() {
    const found = last.words?.found ?? [];
    canvas.hidden = !last.bitmap;
    hint.hidden = Boolean(last.bitmap);
    drop.classList.toggle("full", Boolean(last.bitmap));
    if (last.bitmap) picture(canvas, last.bitmap, found);
    results.replaceChildren(...result(last.words, last.error));
  }

  async function run() {
    if (!last.file) return;
    const query = limit === null ? "?top=5" : `?top=5&threshold=${limit}`;
    const started = performance.now(), mine = ++turn;
    let words = null, problem = "";
    results.replaceChildren(h("h2", {}, "Running"), h("p", { class: "muted" }, `${chosen.name} is looking at it.`));
    try {
      words = await (await ask(`/v2/models/${chosen.name}/image${query}`, { method: "POST", body: last.file })).json();
      words.whole = performance.now() - started;
    } catch (error) {
      problem = error.message;
    }
    if (mine !== turn) return;
    Object.assign(last, { words, error: problem });
    show();
  }

  async function take(chosenFile) {
    if (!chosenFile) return;
    try {
      last.bitmap = await createImageBitmap(chosenFile);
    } catch {
      last.bitmap = null;
    }
    Object.assign(last, { file: chosenFile, words: null, error: "" });
    show();
    await run();
  }

  drop.onclick = () => file.click();
  drop.onkeydown = (event) => (event.key === "Enter" || event.key === " ") && file.click();
  drop.ondragover = (event) => { event.preventDefault(); drop.classList.add("over"); };
  drop.ondragleave = () => drop.classList.remove("over");
  drop.ondrop = (event) => { event.preventDefault(); drop.classList.remove("over"); take(event.dataTransfer.files[0]); };
  file.onchange = () => take(file.files[0]);
  document.onpaste = (event) => location.hash.startsWith("#/try") && take(event.clipboardData.files[0]);
  threshold.oninput = () => { limit = Number(threshold.value); auto.textContent = limit.toFixed(2); };
  threshold.onchange = run;
  const select = h("select", { id: "model", onchange: () => { location.hash = `#/try/${select.value}`; } },
    some.map((model) => h("option", { value: model.name, ...(model === chosen ? { selected: "" } : {}) }, model.name)));
  Object.assign(last, { words: null, error: "" });
  show();
  run();
  return [h("h1", {}, "Try it"), h("div", { class: "try" }, h("div", {}, drop, file),
    h("div", {}, h("div", { class: "card" }, h("label", {}, "Model", select), slider, command(chosen)), h("br"), results))];
}

function command(model) {
  return h("div", {}, h("span", { class: "small muted" }, "The same from a shell"),
    h("pre", {}, `curl --data-binary @picture.jpg \\\n  ${location.origin}/v2/models/${model.name}/image`));
}

function result(words, error) {
  if (error) return [h("h2", {}, "That did not work"), h("p", { class: "error" }, error)];
  if (!words) return [h("h2", {}, "Nothing yet"), h("p", { class: "muted" }, "The result appears here.")];
  const rows = words.found.map((row) => h("li", {},
    h("span", {}, row.box ? chip(row) : null, caption(row)), h("b", {}, `${(100 * score(row)).toFixed(1)} %`), bar(score(row))));
  const times = words.milliseconds;
  const title = { classify: "Looks like", detect: "Found", segment: "Found", pose: "Found", text: "Lines of text", read: "It says" };
  return [h("div", { class: "row" }, h("h2", {}, title[words.task] ?? "Found"), h("span", { class: "pill" }, words.family)),
    h("p", { class: "small muted" }, `${words.width} × ${words.height} pixels, ${ms(words.whole)} with the network`),
    ...split(times),
    rows.length ? h("ul", { class: "found", id: "found" }, rows) : h("p", { id: "found", class: "muted" }, "Nothing was found."),
    ...words.notes.map((note) => h("p", { class: "small muted" }, note))];
}

function chip(row) {
  return s("svg", { class: "chip", viewBox: "0 0 10 10" }, s("circle", { cx: 5, cy: 5, r: 5, fill: colour(row) }));
}
