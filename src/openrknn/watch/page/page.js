"use strict";
const KEY = "openrknn-token";
const at = id => document.getElementById(id);
const cards = new Map();
let shown = 0, large = null, asking = null;

function login() {
  asking ??= new Promise(done => {
    at("login").addEventListener("close", () => { sessionStorage.setItem(KEY, at("token").value); asking = null; done(); }, { once: true });
    at("login").showModal();
  });
  return asking;
}

async function ask(path) {
  for (;;) {
    const token = sessionStorage.getItem(KEY);
    const answer = await fetch(path, { headers: token ? { Authorization: `Bearer ${token}` } : {}, cache: "no-store" });
    if (answer.status !== 401) return answer;
    await login();
  }
}

async function paint(image, blob) {
  const old = image.src;
  image.src = URL.createObjectURL(blob);
  await image.decode().catch(() => {});
  if (old) URL.revokeObjectURL(old);
}

const ms = value => value < 10 ? `${value.toFixed(1)} ms` : value < 10000 ? `${value.toFixed(0)} ms` : `${(value / 1000).toFixed(1)} s`;
const counted = counts => Object.entries(counts).map(([name, count]) => `${count} ${name}`).join(", ");

function card(name) {
  if (cards.has(name)) return cards.get(name);
  const root = at("camera").content.cloneNode(true).firstElementChild;
  root.querySelector("h3").textContent = name;
  root.querySelector("img").alt = `newest image of ${name}`;
  root.querySelector("button").setAttribute("aria-label", `enlarge ${name}`);
  root.querySelector("button").onclick = () => enlarge(name);
  at("cameras").append(root);
  const made = { root, picture: 0, isBusy: false };
  cards.set(name, made);
  return made;
}

function show(camera) {
  const { root } = card(camera.name);
  const put = (kind, text) => { root.querySelector(`.${kind}`).textContent = text; };
  root.classList.toggle("bad", !camera.is_online);
  put("state", camera.is_online ? "live" : "lost");
  put("found", camera.is_online ? [counted(camera.totals) || "nothing in sight", ...Object.entries(camera.zones).filter(([, counts]) => counted(counts)).map(([zone, counts]) => `${zone}: ${counted(counts)}`)].join(" · ") : camera.problem);
  put("fps", camera.fps.toFixed(1));
  put("latency", ms(camera.latency_ms));
  put("dropped", camera.dropped);
  put("events", camera.events);
}

async function refresh(camera) {
  const mine = card(camera.name);
  if (mine.isBusy || camera.picture <= mine.picture || document.hidden) return;
  mine.isBusy = true;
  try {
    const answer = await ask(`/cameras/${camera.name}.jpg?after=0`);
    if (answer.status === 200) {
      const blob = await answer.blob();
      mine.picture = camera.picture;
      mine.root.querySelector(".image").classList.add("has");
      await paint(mine.root.querySelector("img"), blob);
    }
  } finally { mine.isBusy = false; }
}

async function enlarge(name) {
  const mine = {};
  large = mine;
  at("large-title").textContent = name;
  at("large-image").alt = `live image of ${name}`;
  at("large").showModal();
  let after = 0;
  while (large === mine) {
    const answer = await ask(`/cameras/${name}.jpg?after=${after}`).catch(() => null);
    if (!answer) { await new Promise(done => setTimeout(done, 1000)); continue; }
    const state = JSON.parse(answer.headers.get("X-State"));
    if (answer.status === 200 && large === mine) { after = state.picture; await paint(at("large-image"), await answer.blob()); }
    if (state.ended) return;
  }
}
at("large").addEventListener("close", () => { large = null; });

const VERBS = { enter: "entered", leave: "left", loiter: "loiters in", cross: "crossed" };
function told(event) {
  if (event.kind === "online" || event.kind === "offline") return `${event.camera} is ${event.kind}${event.reason ? `: ${event.reason}` : ""}`;
  const more = event.kind === "leave" || event.kind === "loiter" ? ` after ${event.seconds.toFixed(0)} s` : event.direction ? ` (${event.direction})` : "";
  return `${event.label} #${event.track} ${VERBS[event.kind]} ${event.zone ?? event.line}${more}${event.reason === "lost" ? ", out of sight" : ""}`;
}

async function listEvents() {
  const { events } = await (await ask("/events")).json();
  const fresh = events.filter(event => event.number > shown).reverse();
  for (const event of fresh) {
    const row = document.createElement("li");
    if (event.has_snapshot) {
      const button = document.createElement("button"), image = document.createElement("img");
      image.alt = `snapshot of event ${event.number}`;
      button.append(image);
      button.setAttribute("aria-label", `enlarge snapshot of event ${event.number}`);
      button.onclick = () => { large = null; at("large-title").textContent = told(event); at("large-image").alt = image.alt; at("large-image").src = image.src; at("large").showModal(); };
      row.append(button);
      if (events.indexOf(event) < 24) ask(`/events/${event.number}.jpg`).then(async answer => { if (answer.ok) image.src = URL.createObjectURL(await answer.blob()); }).catch(() => {});
    }
    const what = document.createElement("div"), time = document.createElement("time");
    what.className = "what";
    time.textContent = `${new Date(1000 * event.time).toLocaleTimeString()} · ${event.camera}`;
    time.dateTime = event.utc;
    what.append(told(event), time);
    row.append(what);
    at("events").prepend(row);
    shown = event.number;
  }
  while (at("events").children.length > 48) {
    const last = at("events").lastElementChild, image = last.querySelector("img");
    if (image?.src) URL.revokeObjectURL(image.src);
    last.remove();
  }
  at("no-events").hidden = at("events").children.length > 0;
}

function table(id, rows) {
  at(id).replaceChildren(...rows.map(cells => {
    const line = document.createElement("tr");
    for (const cell of cells) {
      const place = line.insertCell();
      place.textContent = cell.text ?? cell;
      if (typeof cell === "number") place.className = "number";
      if (cell.bad) place.className = "bad";
    }
    return line;
  }));
}
const condition = problem => problem ? { text: problem, bad: true } : "well";

async function watch() {
  for (;;) {
    try {
      const state = await (await ask("/state")).json();
      if (state.newest_event < shown) { shown = 0; at("events").replaceChildren(); }
      state.cameras.forEach(show);
      const lost = state.cameras.filter(camera => !camera.is_online).length;
      at("cameras-count").textContent = `${state.cameras.length}${lost ? `, ${lost} lost` : ""}`;
      at("status").textContent = lost ? `${lost} of ${state.cameras.length} cameras lost` : "live";
      at("status").className = lost ? "bad" : "";
      table("models", state.models.map(one => [one.name, one.device, one.reloads, one.restarts, condition(one.problem)]));
      table("sinks", state.sinks.map(one => [one.name, one.delivered, one.waiting, one.given_up, condition(one.problem)]));
      if (state.newest_event > shown) await listEvents();
      if (!large) await Promise.all(state.cameras.map(refresh));
      await new Promise(done => setTimeout(done, 1000));
    } catch {
      at("status").textContent = "no connection, trying again";
      at("status").className = "bad";
      await new Promise(done => setTimeout(done, 1000));
    }
  }
}
watch();
