"use strict";
(() => {
  const root = document.documentElement;
  root.classList.add("scripted");
  const all = (selector, from = document) => [...from.querySelectorAll(selector)];
  const make = (name, text, look) => {
    const node = document.createElement(name);
    if (text !== undefined) node.textContent = text;
    if (look) node.className = look;
    return node;
  };
  const sizeText = (bytes) => {
    const units = ["B", "KiB", "MiB", "GiB"];
    let unit = 0;
    while (bytes >= 1024 && unit < 3) { bytes /= 1024; unit += 1; }
    return `${bytes.toFixed(!unit || bytes >= 100 ? 0 : bytes >= 10 ? 1 : 2)} ${units[unit]}`;
  };

  // ---- tables: sort by a click on a column's title, filter by the search field

  const setUpTable = (box) => {
    const body = box.querySelector("tbody");
    const rows = all("tr", body);
    const search = box.querySelector("input");
    const found = box.querySelector(".found");
    const value = (row, column) => {
      const cell = row.cells[column];
      return cell.dataset.v === undefined ? cell.textContent.toLowerCase() : Number(cell.dataset.v);
    };
    all("th", box).forEach((head, column) => {
      const sort = () => {
        const up = head.getAttribute("aria-sort") ? head.getAttribute("aria-sort") === "descending"
          : !head.classList.contains("num") || !column;
        all("th", box).forEach((other) => other.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", up ? "ascending" : "descending");
        const keyed = rows.map((row) => [value(row, column), row]);
        keyed.sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0) * (up ? 1 : -1));
        body.append(...keyed.map(([, row]) => row));
      };
      head.tabIndex = 0;
      head.addEventListener("click", sort);
      head.addEventListener("keydown", (event) => {
        if (event.key === "Enter" || event.key === " ") { event.preventDefault(); sort(); }
      });
    });
    search.addEventListener("input", () => {
      const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
      let shown = 0;
      for (const row of rows) {
        const text = row.textContent.toLowerCase();
        row.hidden = !words.every((word) => text.includes(word));
        if (!row.hidden) shown += 1;
      }
      found.textContent = words.length ? `${shown} of ${rows.length}` : "";
    });
  };

  // ---- graph: zoom, pan, small overview, choice of an operator

  const setUpViewer = (viewer, facts) => {
    const canvas = viewer.querySelector(".canvas");
    const picture = viewer.querySelector("svg.graph");
    const panel = viewer.querySelector(".panel");
    const [left, top, width, height] = picture.getAttribute("viewBox").split(" ").map(Number);
    const node = (index) => document.getElementById(`${viewer.dataset.prefix}n${index}`);
    const order = Object.keys(facts.operators).map(Number);
    let scale = 1;
    let current = null;
    viewer.classList.toggle("small", height < 480);
    viewer.classList.toggle("fits", height < 1.3 * canvas.clientHeight && width < canvas.clientWidth);

    const zoom = (next, x = canvas.clientWidth / 2, y = canvas.clientHeight / 2) => {
      next = Math.min(4, Math.max(0.02, next));
      const ratio = next / scale;
      const [atX, atY] = [canvas.scrollLeft + x, canvas.scrollTop + y];
      scale = next;
      picture.setAttribute("width", width * scale);
      picture.setAttribute("height", height * scale);
      picture.classList.toggle("far", scale < 0.4);
      canvas.scrollTo(atX * ratio - x, atY * ratio - y);
      small.update();
    };
    const fit = () => Math.min(canvas.clientWidth / width, canvas.clientHeight / height);

    const small = setUpOverview(viewer, canvas, picture, [left, top, width, height], () => scale);
    all("[data-zoom]", viewer).forEach((button) => button.addEventListener("click", () => {
      const targets = { in: scale * 1.3, out: scale / 1.3, one: 1, fit: fit() };
      zoom(targets[button.dataset.zoom]);
    }));
    canvas.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      const box = canvas.getBoundingClientRect();
      zoom(scale * Math.exp(-event.deltaY / 300), event.clientX - box.left, event.clientY - box.top);
    }, { passive: false });
    canvas.addEventListener("keydown", (event) => {
      if (event.key === "+" || event.key === "=") zoom(scale * 1.3);
      if (event.key === "-") zoom(scale / 1.3);
      if (event.key === "0") zoom(fit());
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      const next = order[order.indexOf(current) + step];
      if (step && next !== undefined) { event.preventDefault(); choose(next, "canvas"); }
    });
    setUpDragging(canvas);

    const choose = (index, scroll) => {
      const chosen = node(index);
      if (!chosen) return;
      all(".node.on", viewer).forEach((other) => other.classList.remove("on"));
      all(".edges .near", viewer).forEach((edge) => edge.classList.remove("near"));
      chosen.classList.add("on");
      all(".box.on", viewer).forEach((box) => box.classList.remove("on"));
      all(`.box[data-box="${index}"]`, viewer).forEach((box) => box.classList.add("on"));
      current = index;
      all(`.edges [data-s="${index}"], .edges [data-t="${index}"]`, picture).forEach((edge) => {
        edge.classList.add("near");
        edge.parentNode.append(edge);
      });
      fill(panel, index, facts, choose);
      if (!scroll) return;
      if (scroll === "page") viewer.scrollIntoView({ block: "nearest" });
      const [box, frame] = [chosen.getBoundingClientRect(), canvas.getBoundingClientRect()];
      canvas.scrollBy(box.left + box.width / 2 - frame.left - frame.width / 2,
        box.top + box.height / 2 - frame.top - frame.height / 2);
    };
    all(".node", picture).forEach((link) => { link.tabIndex = -1; });
    const first = order.find((index) => facts.operators[index].look !== "io");
    if (first !== undefined) {
      choose(first, "canvas");
      canvas.scrollTop = 0;
    }
    return choose;
  };

  const setUpDragging = (canvas) => {
    let start = null;
    canvas.addEventListener("pointerdown", (event) => {
      if (event.pointerType !== "mouse" || event.button) return;
      start = { x: event.clientX + canvas.scrollLeft, y: event.clientY + canvas.scrollTop, moved: false };
    });
    window.addEventListener("pointermove", (event) => {
      if (!start) return;
      const [x, y] = [start.x - event.clientX, start.y - event.clientY];
      if (!start.moved && Math.hypot(x - canvas.scrollLeft, y - canvas.scrollTop) < 4) return;
      start.moved = true;
      canvas.classList.add("dragging");
      canvas.scrollTo(x, y);
    });
    window.addEventListener("pointerup", () => {
      if (start && start.moved) window.addEventListener("click", stop, { capture: true, once: true });
      setTimeout(() => window.removeEventListener("click", stop, { capture: true }), 0);
      start = null;
      canvas.classList.remove("dragging");
    });
    canvas.addEventListener("dragstart", (event) => event.preventDefault());
  };
  const stop = (event) => { event.preventDefault(); event.stopPropagation(); };

  const setUpOverview = (viewer, canvas, picture, [left, top, width, height], scale) => {
    const space = "http://www.w3.org/2000/svg";
    const map = document.createElementNS(space, "svg");
    const frame = document.createElementNS(space, "rect");
    map.setAttribute("viewBox", `${left} ${top} ${width} ${height}`);
    frame.setAttribute("class", "window");
    for (const node of all(".node", picture)) {
      const box = node.querySelector("rect").cloneNode();
      box.setAttribute("transform", node.getAttribute("transform"));
      box.setAttribute("class", `box ${node.getAttribute("class").replace("node ", "")}`);
      box.dataset.box = node.dataset.op;
      map.append(box);
    }
    map.append(frame);
    const strip = viewer.querySelector(".overview");
    strip.append(map);
    if (width / height > strip.clientWidth / strip.clientHeight) map.setAttribute("preserveAspectRatio", "none");
    const update = () => {
      const [box, view] = [picture.getBoundingClientRect(), canvas.getBoundingClientRect()];
      const x = Math.max(0, view.left - box.left) / scale();
      const y = Math.max(0, view.top - box.top) / scale();
      frame.setAttribute("x", left + x);
      frame.setAttribute("y", top + y);
      frame.setAttribute("width", Math.max(0, Math.min(width - x, canvas.clientWidth / scale())));
      frame.setAttribute("height", Math.max(0, Math.min(height - y, canvas.clientHeight / scale())));
    };
    const jump = (event) => {
      if (!event.buttons) return;
      const point = new DOMPoint(event.clientX, event.clientY).matrixTransform(map.getScreenCTM().inverse());
      canvas.scrollTo((point.x - left) * scale() - canvas.clientWidth / 2,
        (point.y - top) * scale() - canvas.clientHeight / 2);
    };
    map.addEventListener("pointerdown", jump);
    map.addEventListener("pointermove", jump);
    canvas.addEventListener("scroll", update, { passive: true });
    window.addEventListener("resize", update);
    requestAnimationFrame(update);
    return { update };
  };

  const fill = (panel, index, facts, choose) => {
    const operator = facts.operators[index];
    const title = make("h3", `#${index} ${operator.type}`);
    const place = make("p");
    place.append(make("span", operator.look === "io" ? "in/out" : operator.on, `pill ${operator.look}`));
    const pairs = make("dl", undefined, "pairs");
    for (const [name, text] of Object.entries(operator.facts)) pairs.append(make("dt", name), make("dd", text));
    panel.replaceChildren(title, place, make("p", operator.name, "muted"), pairs);
    for (const [name, indices] of Object.entries(operator.groups)) {
      panel.append(make("h4", name));
      for (const number of indices) panel.append(tensorBox(facts.tensors[number], index, choose));
    }
    if (operator.more) panel.append(make("p", `and ${operator.more} more`, "muted"));
    panel.scrollTop = 0;
  };

  const tensorBox = (tensor, index, choose) => {
    const box = make("div", undefined, "tensor");
    box.append(make("b", tensor.name), make("p", tensor.shape));
    for (const fact of tensor.facts) box.append(make("p", fact, "muted"));
    for (const [word, others] of [["written by", tensor.from], ["read by", tensor.to]]) {
      const there = others.filter((other) => other !== index);
      if (!there.length) continue;
      const line = make("p", `${word} `, "muted");
      for (const other of there) {
        const link = make("a", `#${other}`);
        link.href = "#";
        link.addEventListener("click", (event) => { stop(event); choose(other, "canvas"); });
        line.append(link, " ");
      }
      box.append(line);
    }
    return box;
  };

  // ---- memory map: what is alive where the pointer is

  const setUpMemory = (figure, facts) => {
    const chart = figure.querySelector("svg");
    const cursor = chart.querySelector(".cursor");
    const readout = figure.querySelector(".readout");
    const alive = figure.dataset.alive.split(" ").map(Number);
    const { left, step, steps } = chart.dataset;
    chart.addEventListener("pointermove", (event) => {
      const point = new DOMPoint(event.clientX, event.clientY).matrixTransform(chart.getScreenCTM().inverse());
      const index = Math.floor((point.x - left) / step);
      const inside = index >= 0 && index < steps;
      cursor.classList.toggle("on", inside);
      if (!inside) return;
      const x = Number(left) + (index + 0.5) * step;
      cursor.setAttribute("x1", x);
      cursor.setAttribute("x2", x);
      const operator = facts.operators[index];
      readout.textContent = `#${index} ${operator ? operator.type : ""}: ${sizeText(alive[index])} alive`;
    });
  };

  // ---- all together, graph by graph

  all(".one-graph").forEach((part) => {
    const facts = JSON.parse(part.querySelector("script.data").textContent);
    const choose = setUpViewer(part.querySelector(".viewer"), facts);
    all(".table", part).forEach(setUpTable);
    all(".memory", part).forEach((figure) => setUpMemory(figure, facts));
    part.addEventListener("click", (event) => {
      const link = event.target.closest("a[data-op]");
      if (!link || event.ctrlKey || event.metaKey) return;
      event.preventDefault();
      choose(Number(link.dataset.op), link.classList.contains("node") ? false : "page");
    });
  });
  const select = document.querySelector(".picker select");
  if (select) {
    const show = () => {
      all(".one-graph").forEach((part) => { part.hidden = part.id !== select.value; });
      const prefix = select.value.replace("all", "");
      all("nav a").forEach((link) => link.setAttribute("href", link.getAttribute("href").replace(/g\d+-/, prefix)));
    };
    select.addEventListener("change", () => { show(); window.dispatchEvent(new Event("resize")); });
    show();
  }
})();
