// The page: looks at the server once a second and shows what it sees.

import { ask, askJson } from "./ask.js";
import { chatView, leaveChat } from "./chat.js";
import { bytes, chart, duration, h, ms, split } from "./draw.js";
import { tryView } from "./try.js";
import { leaveVoice, voiceView } from "./voice.js";

const view = document.getElementById("view");
const history = new Map(); // "npu core" -> loads; the last minute
const rates = new Map(); // model -> [requests, time] before
let status = null;
let route = null;

// -- overview ------------------------------------------------------------------------------------------------------

function overview() {
  return [
    ...(status.server.ready ? [] : [h("section", {}, h("p", { class: "card finding warning" }, status.server.problem))]),
    h("section", {}, h("div", { class: "row" }, h("h1", {}, "NPU")), h("div", { class: "grid" }, status.npus.length
      ? status.npus.map(npu) : h("p", { class: "card muted wide" }, "No NPU is in use."))),
    (status.voices.length || status.languages.length) && !status.models.length ? null : h("section", {}, h("div", { class: "row" }, h("h1", {}, "Models"),
      h("span", { class: "muted" }, `under way: ${status.server.under_way}`)),
    h("div", { class: "grid" }, status.models.length ? status.models.map(model)
      : h("p", { class: "card muted wide" }, "There are no models."))),
    status.languages.length ? h("section", {}, h("div", { class: "row" }, h("h1", {}, "Language models")),
      h("div", { class: "grid" }, status.languages.map(language))) : null,
    status.voices.length ? h("section", {}, h("div", { class: "row" }, h("h1", {}, "Voices")),
      h("div", { class: "grid" }, status.voices.map(voice))) : null,
  ].filter(Boolean);
}

function language(entry) {
  const number = (name, value) => h("div", {}, h("dt", {}, name), h("dd", {}, value));
  const seconds = entry.first_seconds === null ? "–" : `${entry.first_seconds.toFixed(2)} s`;
  return h("article", { class: "card", "data-language": entry.name },
    h("header", {}, h("h2", {}, entry.name, " ", h("span", { class: "muted small" }, `${entry.architecture} ${entry.quantisation}`)),
      h("span", { class: `pill ${entry.problem ? "bad" : "good"}` }, entry.problem ? "not ready" : "ready")),
    h("dl", { class: "numbers" }, number("answered", entry.requests), number("tokens/s", entry.tokens_per_second.toFixed(1)),
      number("first token", seconds), number("written", entry.generated_tokens), number("active", entry.active), number("waiting", entry.waiting)),
    entry.notice ? h("p", { class: "small muted" }, entry.notice) : null,
    entry.problem ? h("p", { class: "small error" }, entry.problem) : null,
    entry.can_chat ? h("div", { class: "actions" }, h("a", { class: "button primary", href: "#/chat" }, "Chat")) : null);
}

function voice(entry) {
  const kinds = { transcriber: "speech to text", speaker: "text to speech", wake: "wake word" };
  const number = (name, value) => h("div", {}, h("dt", {}, name), h("dd", {}, value));
  return h("article", { class: "card", "data-voice": entry.name },
    h("header", {}, h("h2", {}, entry.name, " ", h("span", { class: "muted small" }, entry.language)),
      h("span", { class: `pill ${entry.problem ? "bad" : "good"}` }, kinds[entry.kind])),
    h("dl", { class: "numbers" }, number("answered", entry.requests), number("sound", duration(entry.audio_seconds)),
      number("real-time factor", entry.real_time_factor === null ? "–" : entry.real_time_factor.toFixed(2))),
    entry.problem ? h("p", { class: "small error" }, entry.problem) : null,
    entry.kind === "wake" ? null : h("div", { class: "actions" }, h("a", { class: "button primary", href: "#/voice" }, "Try it")));
}

function npu(entry) {
  const cores = entry.loads.map((load, core) => h("div", { class: "core" },
    h("div", { class: "row" }, h("span", { class: "muted" }, `Core ${core}`), h("b", {}, load === null ? "–" : `${Math.round(load)} %`)),
    chart(history.get(`${entry.name} ${core}`) ?? [], `Load of core ${core}, last minute`)));
  const facts = [
    entry.hz ? ["clock", `${Math.round(entry.hz / 1e6)} MHz`] : null,
    entry.memory_bytes ? ["memory", bytes(entry.memory_bytes)] : null,
    ...entry.temperatures.map((zone) => [zone.zone, `${zone.celsius.toFixed(1)} °C${zone.throttling ? ", throttling" : ""}`]),
    entry.version ? ["driver", entry.version] : null,
  ].filter(Boolean);
  return h("article", { class: "card wide" }, h("header", {}, h("h2", {}, entry.name),
    h("span", { class: "pill" }, entry.driver === "software" ? "software NPU" : entry.driver)),
  h("div", { class: "cores" }, cores),
  facts.length ? h("p", { class: "facts" }, facts.map(([name, value]) => h("span", {}, `${name} `, h("b", {}, value)))) : null);
}

function model(entry) {
  const states = { READY: "good", LOADING: "warn", UNLOADING: "warn" };
  const head = h("header", {}, h("h2", {}, entry.name, " ", h("span", { class: "muted small" }, `version ${entry.version}`)),
    h("span", { class: `pill ${states[entry.state] ?? "bad"}` }, entry.state.toLowerCase()));
  if (!entry.device) return h("article", { class: "card" }, head, h("p", { class: "muted" }, entry.reason || "not loaded"));
  const failed = Object.values(entry.failures).reduce((sum, count) => sum + count, 0);
  const number = (name, value, unit = "", kind = "") => h("div", { class: kind }, h("dt", {}, name), h("dd", {}, value, unit));
  const small = (text) => h("small", {}, text);
  const latency = entry.milliseconds;
  return h("article", { class: "card", "data-model": entry.name }, head,
    h("dl", { class: "numbers" },
      number("p50", ms(latency.p50)), number("p95", ms(latency.p95)), number("p99", ms(latency.p99)),
      number("answered", entry.requests, small(` ${(entry.rate ?? 0).toFixed(1)}/s`)),
      number("errors", failed, entry.restarts ? small(` ${entry.restarts} restarts`) : "", failed ? "failed" : ""),
      number("queue", entry.queue, small(` of ${entry.queue_size}`))),
    ...split(entry.stages),
    h("p", { class: "small muted" }, `${entry.device}, ${entry.contexts} contexts`),
    entry.reason ? h("p", { class: "small error" }, entry.reason) : null,
    h("div", { class: "actions" }, entry.takes_pictures ? h("a", { class: "button primary", href: `#/try/${entry.name}` }, "Try it") : null,
      h("a", { class: "button", href: `#/model/${entry.name}/${entry.version}` }, "Look inside")));
}

// -- model, doctor -------------------------------------------------------------------------------------------------

async function modelView(name, version) {
  const base = `/v2/models/${encodeURIComponent(name)}/versions/${encodeURIComponent(version)}`;
  const words = await askJson(base);
  const { ticket } = await askJson("/ticket");
  const ends = (kind) => words[kind].map((port) => h("tr", {}, h("th", {}, kind.slice(0, -1)), h("td", {}, h("b", {}, port.name)),
    h("td", {}, `${port.datatype} [${port.shape.join(", ")}]`)));
  return [h("h1", {}, name, " ", h("span", { class: "muted small" }, `version ${version}`)),
    h("div", { class: "card" }, h("table", {}, h("tbody", {}, ends("inputs"), ends("outputs")))), h("br"),
    h("iframe", { src: `${base}/inspect${ticket ? `?ticket=${ticket}` : ""}`, title: `What is in ${name}` })];
}

async function doctorView() {
  const found = await askJson("/doctor");
  const words = { error: "bad", warning: "warn", ok: "good" };
  return [h("h1", {}, "Doctor"), ...found.map((entry) => h("article", { class: `card finding ${entry.severity}` },
    h("div", { class: "row" }, h("h2", {}, entry.what), h("span", { class: `pill ${words[entry.severity] ?? ""}` }, entry.severity)),
    entry.why ? h("p", { class: "muted" }, entry.why) : null,
    entry.fix.length ? h("pre", {}, entry.fix.join("\n")) : null)),
  found.length ? null : h("p", { class: "card" }, "Nothing to complain about.")].filter(Boolean);
}

// -- going round ---------------------------------------------------------------------------------------------------

async function show() {
  route = location.hash;
  const [, page = "", ...rest] = route.split("/").map(decodeURIComponent);
  for (const link of document.querySelectorAll("nav a")) {
    if (link.hash === `#/${page}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  leaveVoice();
  leaveChat();
  try {
    if (page === "try") view.replaceChildren(...tryView(status.models, rest[0]));
    else if (page === "chat") view.replaceChildren(...chatView(status.languages));
    else if (page === "voice") view.replaceChildren(...voiceView(status.voices));
    else if (page === "model") view.replaceChildren(...await modelView(rest[0], rest[1]));
    else if (page === "doctor") view.replaceChildren(...await doctorView());
    else view.replaceChildren(...overview());
  } catch (error) {
    view.replaceChildren(h("p", { class: "card error" }, error.message));
  }
}

function remember() {
  for (const entry of status.npus) {
    entry.loads.forEach((load, core) => {
      const key = `${entry.name} ${core}`;
      const values = history.get(key) ?? [];
      values.push(load ?? 0);
      history.set(key, values.slice(-60));
    });
  }
  for (const entry of status.models) {
    const key = `${entry.name} ${entry.version}`, now = performance.now();
    const [count, time] = rates.get(key) ?? [entry.requests, now];
    entry.rate = now > time ? Math.max(0, 1000 * (entry.requests - count) / (now - time)) : 0;
    rates.set(key, [entry.requests, now]);
  }
}

async function look() {
  const pill = document.getElementById("state");
  try {
    status = await (await ask("/status")).json();
    remember();
    const { server } = status;
    pill.textContent = server.ready ? "ready" : "not ready";
    pill.className = `pill ${server.ready ? "good" : "warn"}`;
    pill.title = server.problem;
    document.getElementById("about").textContent = `openrknn ${server.version}, up ${duration(server.up_seconds)}`;
    if (route === null || (location.hash.length < 3 && !view.matches(":focus-within"))) await show();
  } catch (error) {
    pill.textContent = "no answer";
    pill.className = "pill bad";
    pill.title = error.message;
  }
}

window.addEventListener("hashchange", () => status && show());
for (;;) {
  if (!document.hidden) await look();
  await new Promise((done) => setTimeout(done, 1000));
}
