// Things that are drawn: elements, charts, bars, and what was found in a picture.
// Names come from strangers' files: text is set as text, never as HTML.

const SVG = "http://www.w3.org/2000/svg";
const COLOURS = ["#2a69cf", "#d9582b", "#1d8f5a", "#b8409c", "#c29200", "#1497a8", "#7a55d8", "#c2334a"];
export const STAGES = { queue: "queue", pre: "before", npu: "NPU", post: "after" };

/** An element: h("p", {class: "x", onclick: f}, "text", child). */
export function h(name, properties = {}, ...children) {
  return fill(document.createElement(name), properties, children);
}

/** The same for SVG. */
export function s(name, properties = {}, ...children) {
  return fill(document.createElementNS(SVG, name), properties, children);
}

function fill(element, properties, children) {
  for (const [key, value] of Object.entries(properties)) {
    if (typeof value === "function") element[key] = value;
    else if (value !== null && value !== undefined && value !== false) element.setAttribute(key, value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

/** The last minute of a load, 0 to 100. */
export function chart(values, label) {
  const count = 60;
  const points = values.map((value, at) => [100 * (count - values.length + at) / (count - 1), 58 - 0.54 * value - 2]);
  const line = points.map(([x, y], at) => `${at ? "L" : "M"}${x.toFixed(2)} ${y.toFixed(2)}`).join("");
  const area = points.length ? `${line}L100 58L${points[0][0].toFixed(2)} 58Z` : "";
  return s("svg", { class: "chart", viewBox: "0 0 100 58", preserveAspectRatio: "none", role: "img", "aria-label": label },
    s("path", { class: "area", d: area }), s("path", { class: "line", d: line }));
}

/** Where the time went: a bar and its legend. `times`: stage -> milliseconds. */
export function split(times) {
  const total = Object.keys(STAGES).reduce((sum, name) => sum + (times[name] || 0), 0);
  let at = 0;
  const parts = Object.keys(STAGES).map((name) => {
    const width = total ? 100 * (times[name] || 0) / total : 0;
    const part = s("rect", { class: name, x: at, y: 0, width, height: 9 });
    at += width;
    return part;
  });
  const legend = Object.entries(STAGES).map(([name, words]) => h("span", {},
    s("svg", { viewBox: "0 0 9 9" }, s("rect", { class: name, width: 9, height: 9, rx: 2 })),
    `${words} ${ms(times[name])}`));
  return [s("svg", { class: "split", viewBox: "0 0 100 9", preserveAspectRatio: "none", role: "img",
    "aria-label": "Where the time went" }, parts), h("p", { class: "legend" }, legend)];
}

/** A thin bar for a share from 0 to 1. */
export function bar(share) {
  return s("svg", { viewBox: "0 0 100 4", preserveAspectRatio: "none" },
    s("rect", { width: 100 * Math.max(0, Math.min(1, share)), height: 4 }));
}

export function ms(value) {
  if (value === null || value === undefined) return "–";
  return value < 10 ? `${value.toFixed(2)} ms` : value < 1000 ? `${value.toFixed(1)} ms` : `${(value / 1000).toFixed(2)} s`;
}

export function bytes(value) {
  if (value === null || value === undefined) return "–";
  return value < 1e6 ? `${(value / 1024).toFixed(0)} KiB` : `${(value / 1048576).toFixed(1)} MiB`;
}

export function duration(seconds) {
  const days = Math.floor(seconds / 86400), hours = Math.floor(seconds / 3600) % 24, minutes = Math.floor(seconds / 60) % 60;
  if (days) return `${days} d ${hours} h`;
  if (hours) return `${hours} h ${minutes} min`;
  return minutes ? `${minutes} min ${Math.floor(seconds % 60)} s` : `${Math.floor(seconds)} s`;
}

export function colour(row) {
  return COLOURS[(row.class || 0) % COLOURS.length];
}

export function caption(row) {
  return row.text ?? row.label ?? (row.class === undefined ? "text" : `class ${row.class}`);
}

export function score(row) {
  return row.score ?? row.probability ?? row.share ?? 0;
}

/** The picture with what was found in it. */
export function picture(canvas, bitmap, found) {
  canvas.width = bitmap.width;
  canvas.height = bitmap.height;
  const pen = canvas.getContext("2d");
  pen.drawImage(bitmap, 0, 0);
  const unit = Math.max(bitmap.width, bitmap.height) / 640;
  pen.lineWidth = Math.max(2, 2.5 * unit);
  pen.font = `600 ${Math.max(11, Math.round(14 * unit))}px system-ui, sans-serif`;
  pen.textBaseline = "bottom";
  for (const row of [...found].reverse()) {
    if (!row.box) continue;
    pen.strokeStyle = pen.fillStyle = colour(row);
    outline(pen, row);
    for (const [x, y, sure] of row.keypoints || []) if (sure > 0.3) dot(pen, x, y, 3 * unit);
    if (row.corners && row.class === undefined && row.text === undefined) continue;
    const words = `${caption(row)} ${Math.round(100 * score(row))}%`;
    const high = 18 * Math.max(0.8, unit), wide = pen.measureText(words).width + 8 * unit;
    const top = Math.max(high, row.box[1]);
    pen.fillRect(row.box[0] - pen.lineWidth / 2, top - high, wide, high);
    pen.fillStyle = "#fff";
    pen.fillText(words, row.box[0] + 4 * unit, top - 2 * unit);
  }
}

function outline(pen, row) {
  const corners = row.corners ?? [[row.box[0], row.box[1]], [row.box[2], row.box[1]], [row.box[2], row.box[3]],
    [row.box[0], row.box[3]]];
  pen.beginPath();
  corners.forEach(([x, y], at) => (at ? pen.lineTo(x, y) : pen.moveTo(x, y)));
  pen.closePath();
  pen.stroke();
}

function dot(pen, x, y, radius) {
  pen.beginPath();
  pen.arc(x, y, radius, 0, 7);
  pen.fill();
}
