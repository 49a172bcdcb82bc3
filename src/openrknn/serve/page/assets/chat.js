// The chat page: messages to a language model, and its answers as they are written.

import { ask } from "./ask.js";
import { h } from "./draw.js";
import { markdown } from "./markdown.js";

const talk = { model: null, messages: [], system: "", temperature: 0.7 }; // stays while the tab is open
let stop = () => {}; // ends the answer under way

export function chatView(models) {
  leaveChat();
  const able = models.filter((model) => model.can_chat);
  if (!able.length) {
    return [h("h1", {}, "Chat"), h("p", { class: "card" }, "No language model that chats is served here. Start the server with ",
      h("code", {}, "--llm FILE.gguf"), ".")];
  }
  if (!able.some((model) => model.name === talk.model)) talk.model = able[0].name;
  const select = h("select", { id: "llm", "aria-label": "Model" }, able.map((model) => h("option", { value: model.name }, model.name)));
  select.value = talk.model;
  const notice = h("p", { class: "small muted", id: "notice" });
  const log = h("div", { class: "chat-log", id: "log", role: "log", "aria-live": "polite" });
  const input = h("textarea", { id: "prompt", rows: 3, placeholder: "Write a message. Enter sends it, Shift+Enter starts a new line, Escape stops the answer.", "aria-label": "Message" });
  const send = h("button", { class: "primary", id: "send" }, "Send");
  const clear = h("button", { id: "clear" }, "New chat");
  const note = h("p", { class: "small muted", id: "numbers", role: "status" });
  const system = h("textarea", { id: "system", rows: 2, placeholder: "You are a helpful assistant." });
  const warm = h("input", { type: "range", id: "temperature", min: 0, max: 2, step: 0.1, value: talk.temperature });
  const warmth = h("output", {}, talk.temperature.toFixed(1));
  system.value = talk.system;

  function bubble(message) {
    const isUser = message.role === "user";
    const text = h("div", { class: "words" });
    const thought = h("p", {});
    const thoughts = h("details", { class: "thoughts small muted" }, h("summary", {}, "Thoughts"), thought);
    log.append(h("div", { class: `bubble ${message.role}` }, h("span", { class: "muted small" }, isUser ? "You" : message.model), thoughts, text));
    const show = () => {
      // A reader who has scrolled up stays there.
      const follows = log.scrollHeight - log.scrollTop - log.clientHeight < 40;
      thoughts.hidden = !message.reasoning_content;
      thought.textContent = message.reasoning_content ?? "";
      text.replaceChildren(...(isUser ? [h("p", {}, message.content)] : markdown(message.content)));
      if (follows) log.scrollTop = log.scrollHeight;
    };
    show();
    log.scrollTop = log.scrollHeight;
    return { text, show };
  }

  function about() {
    notice.textContent = able.find((model) => model.name === talk.model)?.notice ?? "";
  }

  function busy(isBusy) {
    send.textContent = isBusy ? "Stop" : "Send";
    clear.disabled = select.disabled = isBusy;
  }

  async function answer() {
    const content = input.value.trim();
    if (!content) return;
    input.value = "";
    talk.messages.push({ role: "user", content });
    bubble(talk.messages.at(-1));
    const message = { role: "assistant", content: "", model: talk.model };
    const { text, show } = bubble(message);
    const control = new AbortController();
    stop = () => control.abort();
    busy(true);
    note.className = "small muted";
    note.textContent = "Reading the prompt ...";
    const started = performance.now();
    let first = 0, usage = null, error = null, tokens = 0, paint = 0;
    try {
      for await (const chunk of chunks(control.signal)) {
        if (chunk.error) throw new Error(chunk.error.message);
        usage = chunk.usage ?? usage;
        const { content: delta = "", reasoning_content: thought = "" } = chunk.choices[0]?.delta ?? {};
        if (!delta && !thought) continue;
        first ||= performance.now();
        tokens += 1;
        message.content += delta ?? "";
        if (thought) message.reasoning_content = (message.reasoning_content ?? "") + thought;
        paint ||= requestAnimationFrame(() => {
          paint = 0;
          show();
          note.textContent = `${tokens} tokens, ${rate(tokens, first)} tokens/s`;
        });
      }
    } catch (problem) {
      if (problem.name !== "AbortError") error = problem;
    }
    cancelAnimationFrame(paint);
    show();
    if (message.content || message.reasoning_content) talk.messages.push(message);
    else { // nothing came: the message is there to be sent again
      text.parentElement.remove();
      talk.messages.pop();
      log.lastElementChild?.remove();
      input.value = content;
    }
    const written = usage?.completion_tokens ?? tokens, prompt = usage ? `${usage.prompt_tokens} prompt tokens, ` : "";
    const numbers = `${prompt}${written} written, ${rate(written, first)} tokens/s, first after ${((first - started) / 1000).toFixed(2)} s`;
    note.textContent = error ? error.message : usage && first ? numbers : first ? `Stopped. ${numbers}` : "Stopped.";
    note.className = error ? "small error" : "small muted";
    stop = () => {};
    busy(false);
    input.focus();
  }

  async function* chunks(signal) {
    const head = talk.system ? [{ role: "system", content: talk.system }] : [];
    const said = talk.messages.map(({ role, content }) => ({ role, content }));
    const words = { model: talk.model, messages: [...head, ...said], temperature: talk.temperature, stream: true,
      stream_options: { include_usage: true } };
    const reply = await ask("/v1/chat/completions", { method: "POST", body: JSON.stringify(words), signal,
      headers: { "Content-Type": "application/json" } });
    const reader = reply.body.pipeThrough(new TextDecoderStream()).getReader();
    let held = "";
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      held += value;
      const parts = held.split("\n\n");
      held = parts.pop();
      for (const part of parts) if (part.startsWith("data: {")) yield JSON.parse(part.slice(6));
    }
  }

  send.onclick = () => (send.textContent === "Stop" ? stop() : answer());
  input.onkeydown = (event) => {
    if (event.key === "Escape") stop();
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    if (send.textContent === "Send") answer();
  };
  clear.onclick = () => {
    talk.messages = [];
    log.replaceChildren();
    note.textContent = "";
    input.focus();
  };
  select.onchange = () => { talk.model = select.value; about(); };
  system.oninput = () => { talk.system = system.value.trim(); };
  warm.oninput = () => { talk.temperature = Number(warm.value); warmth.textContent = talk.temperature.toFixed(1); };
  talk.messages.forEach(bubble);
  about();
  return [h("h1", {}, "Chat"), h("div", { class: "chat" },
    h("section", { class: "card" }, log, input, h("div", { class: "row" }, send, clear), note),
    h("aside", { class: "card" }, h("label", {}, "Model", select), notice, h("label", {}, "Instructions", system),
      h("label", {}, "Temperature ", warmth, warm)))];
}

function rate(tokens, first) {
  return (tokens / Math.max((performance.now() - first) / 1000, 0.001)).toFixed(1);
}

/** The answer under way ends when the page is left. */
export function leaveChat() {
  stop();
}
