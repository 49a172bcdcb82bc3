// Runs beside the page, where sound arrives: a quarter of a second at a time goes to the page as 16-bit samples.

class Recorder extends AudioWorkletProcessor {
  constructor() {
    super();
    this.samples = new Int16Array(Math.round(sampleRate / 4));
    this.count = 0;
    this.loudest = 0;
  }

  process([channels]) {
    const left = channels[0] ?? [];
    for (let at = 0; at < left.length; at += 1) {
      let value = 0;
      for (const channel of channels) value += channel[at] / channels.length;
      this.loudest = Math.max(this.loudest, Math.abs(value));
      this.samples[this.count] = Math.max(-1, Math.min(1, value)) * 32767;
      this.count += 1;
      if (this.count === this.samples.length) {
        const full = this.samples;
        this.port.postMessage({ samples: full, loudest: this.loudest }, [full.buffer]);
        this.samples = new Int16Array(full.length || Math.round(sampleRate / 4));
        this.count = 0;
        this.loudest = 0;
      }
    }
    return true;
  }
}

registerProcessor("recorder", Recorder);
