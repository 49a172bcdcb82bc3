document.documentElement.classList.add("scripted");
const time = document.querySelector(".time"), scroll = document.querySelector(".scroll");
const zoom = document.querySelector("#zoom"), axis = document.querySelector(".axis"), end = Number(time.dataset.end);
const told = document.querySelector("#told");
function text(ns, step) {
  for (const [size, unit] of [[1e9, "s"], [1e6, "ms"], [1e3, "us"]])
    if (step >= size / 1000 && ns >= size || unit === "us") {
      const digits = Math.max(0, Math.ceil(-Math.log10(step / size) - 1e-9));
      return (ns / size).toFixed(Math.min(digits, 6)) + " " + unit;
    }
}
function ticks() {
  const wanted = end / (axis.clientWidth / 110), power = 10 ** Math.floor(Math.log10(wanted));
  const step = [1, 2, 5, 10].map(x => x * power).find(x => x >= wanted) || wanted;
  const shown = [0, scroll.clientWidth].map(x => (scroll.scrollLeft + x) / axis.clientWidth * end);
  axis.replaceChildren();
  for (let at = Math.floor(shown[0] / step) * step; at <= Math.min(shown[1], end); at += step) {
    const mark = document.createElement("span");
    mark.style.left = at / end * 100 + "%";
    mark.textContent = text(at, step);
    axis.append(mark);
  }
}
function set(factor, around) {
  const before = (scroll.scrollLeft + around) / time.clientWidth;
  time.style.width = factor * 100 + "%";
  scroll.scrollLeft = before * time.clientWidth - around;
  ticks();
}
zoom.addEventListener("input", () => set(10 ** Number(zoom.value), scroll.clientWidth / 2));
scroll.addEventListener("wheel", event => {
  if (!event.ctrlKey) return;
  event.preventDefault();
  zoom.value = Number(zoom.value) - event.deltaY / 500;
  set(10 ** Number(zoom.value), event.clientX - scroll.getBoundingClientRect().left);
}, {passive: false});
scroll.addEventListener("scroll", ticks);
addEventListener("resize", ticks);
time.addEventListener("mouseover", event => { if (event.target.title) told.textContent = event.target.title; });
ticks();
