// The voice page: speak and see the text while you do; write and hear it.

import { ask, askJson } from "./ask.js";
import { h, s } from "./draw.js";

let leave = () => {}; // ends what is under way when the page is left

export function voiceView(voices) {
  leave();
  const ears = voices.filter((voice) => voice.kind === "transcriber");
  const mouths = voices.filter((voice) => voice.kind === "speaker");
  const nothing = h("p", { class: "card" }, "No voice is served here. Start the server with ", h("code", {}, "--voice SET"), ".");
  return [h("h1", {}, "Voice"), ears.length || mouths.length ? h("div", { class: "voice" },
    ears.length ? listenCard(ears) : null, mouths.length ? speakCard(mouths) : null) : nothing];
}

export function leaveVoice() {
  leave();
}

// -- listening -----------------------------------------------------------------------------------------------------

function listenCard(voices) {
  const select = names("listener", voices.map((voice) => [voice.name, `${voice.name} (${spoken(voice)})`]));
  const language = h("select", { id: "language" });
  const task = names("task", [["transcribe", "As it is said"], ["translate", "In English"]]);
  const languageLabel = h("label", {}, "Language", language), taskLabel = h("label", {}, "Write it", task);
  const button = h("button", { class: "primary mic", id: "mic", "aria-pressed": "false" }, microphone(), h("span", {}, "Start talking"));
  const level = h("meter", { min: 0, max: 1, value: 0, "aria-label": "How loud it is" });
  const text = h("p", { class: "said", id: "said", "aria-live": "polite" });
  const note = h("p", { class: "small muted", id: "heard" }, "Your voice goes to this server and nowhere else.");
  const file = h("input", { type: "file", accept: "audio/*", id: "recording" });
  let stop = null;

  /** What the chosen model can be asked for; a model of one language leaves nothing to choose. */
  function choices() {
    const voice = voices.find((one) => one.name === select.value);
    const pairs = voice.languages.map((code) => [code, languageName(code)]).sort((a, b) => a[1].localeCompare(b[1]));
    language.replaceChildren(...options([["", "Detect it"], ...pairs]));
    languageLabel.hidden = pairs.length < 2;
    taskLabel.hidden = !voice.tasks.includes("translate");
    task.value = "transcribe";
  }
  select.onchange = choices;
  choices();

  function problem(error) {
    note.className = "small error";
    note.textContent = error.message;
  }

  function show(words) {
    const partial = words.segments.filter((part) => !part.final).map((part) => part.text.trim()).join(" ");
    const sure = partial && words.text.endsWith(partial) ? words.text.slice(0, -partial.length) : words.text;
    text.replaceChildren(sure, h("span", { class: "muted" }, sure === words.text ? "" : partial));
    note.className = "small muted";
    note.textContent = `${words.seconds.toFixed(1)} s heard`;
  }

  function look(isOn) {
    button.setAttribute("aria-pressed", String(isOn));
    button.lastChild.textContent = isOn ? "Stop" : "Start talking";
    level.value = 0;
  }

  button.onclick = async () => {
    if (stop) {
      stop();
      button.disabled = true;
      button.lastChild.textContent = "Finishing";
      return;
    }
    button.disabled = true;
    text.replaceChildren();
    try {
      const session = await listen({ model: select.value, language: language.value, task: task.value }, show, (loud) => { level.value = loud; });
      stop = session.stop;
      leave = session.stop;
      look(true);
      button.disabled = false;
      await session.done;
    } catch (error) {
      problem(error);
    }
    stop = null;
    leave = () => {};
    button.disabled = false;
    look(false);
  };

  file.onchange = async () => {
    if (!file.files[0]) return;
    const form = new FormData();
    form.append("model", select.value);
    form.append("response_format", "verbose_json");
    if (language.value && task.value === "transcribe") form.append("language", language.value);
    form.append("file", file.files[0]);
    text.replaceChildren(h("span", { class: "muted" }, "Listening to it ..."));
    try {
      const words = await askJson(`/v1/audio/${task.value === "translate" ? "translations" : "transcriptions"}`, { method: "POST", body: form });
      show({ text: words.text || "(nothing was said)", segments: [], seconds: words.duration });
    } catch (error) {
      text.replaceChildren();
      problem(error);
    }
  };

  return h("section", { class: "card" }, h("h2", {}, "Speech to text"), h("label", {}, "Model", select), languageLabel, taskLabel,
    h("div", { class: "row" }, button, level), text, note, h("label", {}, "Or a recording", file));
}

/** Microphone to server: samples are collected while a request is under way, and each request takes all there are. */
async function listen(wanted, show, loudness) {
  if (!navigator.mediaDevices?.getUserMedia) {
    throw new Error("Browsers give the microphone only to pages of this machine (localhost) and of https.");
  }
  const stream = await navigator.mediaDevices.getUserMedia({ audio: { channelCount: 1 } });
  const context = new AudioContext();
  const waiting = [];
  let isOn = true, wake = () => {};
  // What was said until now is still sent; what is said from now on is not even recorded.
  const end = () => { isOn = false; close(); wake(); };
  try {
    await context.audioWorklet.addModule("/page/recorder.js");
    await context.resume();
    const recorder = new AudioWorkletNode(context, "recorder");
    recorder.port.onmessage = ({ data }) => {
      if (!isOn) return;
      waiting.push(data.samples);
      loudness(data.loudest);
      wake();
    };
    context.createMediaStreamSource(stream).connect(recorder);
    stream.getAudioTracks()[0].onended = end; // the microphone was unplugged
    const query = new URLSearchParams({ ...wanted, rate: context.sampleRate });
    const { id } = await askJson(`/v1/audio/live?${query}`, { method: "POST" });
    return { stop: end, done: pump(id) };
  } catch (error) {
    close();
    throw error;
  }

  async function pump(id) {
    try {
      for (;;) {
        if (isOn && !waiting.length) await new Promise((done) => { wake = done; });
        const last = !isOn;
        const body = new Blob(waiting.splice(0));
        show(await askJson(`/v1/audio/live/${id}${last ? "?end=1" : ""}`, { method: "POST", body }));
        if (last) return;
      }
    } finally {
      close();
    }
  }

  function close() {
    for (const track of stream.getTracks()) track.stop();
    if (context.state !== "closed") context.close();
  }
}

// -- speaking ------------------------------------------------------------------------------------------------------

function speakCard(voices) {
  const choices = voices.flatMap((voice) => voice.speakers.length > 1
    ? voice.speakers.map((name) => [JSON.stringify([voice.name, name]), `${voice.name}: ${name}`])
    : [[JSON.stringify([voice.name, voice.name]), `${voice.name} (${voice.language})`]]);
  const select = names("speaker", choices);
  const input = h("textarea", { id: "text", rows: 4, maxlength: 4096, placeholder: "Write something" });
  const speed = h("input", { type: "range", id: "speed", min: 0.5, max: 2, step: 0.1, value: 1 });
  const button = h("button", { class: "primary", id: "speak" }, "Speak");
  const player = h("audio", { controls: "", hidden: "", id: "player" });
  const note = h("p", { class: "small muted", id: "spoken" });
  let last = "";

  button.onclick = async () => {
    const [model, voice] = JSON.parse(select.value);
    const words = { model, voice, input: input.value, response_format: "wav", speed: Number(speed.value) };
    const started = performance.now();
    button.disabled = true;
    note.className = "small muted";
    note.textContent = "Speaking ...";
    try {
      const answer = await ask("/v1/audio/speech", {
        method: "POST", body: JSON.stringify(words), headers: { "Content-Type": "application/json" },
      });
      const sound = whole(await answer.arrayBuffer());
      const seconds = (sound.byteLength - 44) / new DataView(sound).getUint32(28, true);
      URL.revokeObjectURL(last);
      last = URL.createObjectURL(new Blob([sound], { type: "audio/wav" }));
      player.src = last;
      player.hidden = false;
      note.textContent = `${seconds.toFixed(1)} s of speech, made in ${((performance.now() - started) / 1000).toFixed(1)} s`;
      await player.play().catch(() => {}); // a browser that wants a click has a button for it
    } catch (error) {
      note.className = "small error";
      note.textContent = error.message;
    }
    button.disabled = false;
  };

  return h("section", { class: "card" }, h("h2", {}, "Text to speech"), h("label", {}, "Voice", select),
    h("label", {}, "Text", input), h("label", {}, "Speed", speed), h("div", { class: "row" }, button), player, note);
}

/** A stream's WAV does not know its length; now it is known. */
function whole(buffer) {
  const view = new DataView(buffer);
  view.setUint32(4, buffer.byteLength - 8, true);
  view.setUint32(40, buffer.byteLength - 44, true);
  return buffer;
}

function names(id, pairs) {
  return h("select", { id }, options(pairs));
}

function options(pairs) {
  return pairs.map(([value, text]) => h("option", { value }, text));
}

function spoken(voice) {
  return voice.languages.length > 1 ? `${voice.languages.length} languages` : voice.language;
}

function languageName(code) {
  try {
    return new Intl.DisplayNames([navigator.language], { type: "language" }).of(code) ?? code;
  } catch {
    return code; // no code that browsers know
  }
}

function microphone() {
  return s("svg", { viewBox: "0 0 24 24", "aria-hidden": "true" },
    s("path", { d: "M12 15a3 3 0 0 0 3-3V6a3 3 0 0 0-6 0v6a3 3 0 0 0 3 3zM6 11v1a6 6 0 0 0 12 0v-1M12 18v3" }));
}
