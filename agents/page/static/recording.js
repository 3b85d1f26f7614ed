// Recording: the newest seconds of the microphone, for an agent that has not come yet (LiveKit's pre-connect buffer).

const KEPT = 10;                                         // seconds
const RATE = 16_000;                                     // Hz of the result

export class Recording {
  #context;
  #source;
  #tap = null;
  #silent = null;
  #pieces = [];
  #samples = 0;
  #isOver = false;

  /** Load what records, for recordings in `context`; call it early. */
  static load(context) {
    const loaded = context.audioWorklet ? context.audioWorklet.addModule('tap.js') : Promise.reject(new Error('no AudioWorklet'));
    loaded.catch(() => {});                              // the recording reports it
    return loaded;
  }

  /**
   * @param context The AudioContext, which runs.
   * @param source The node whose sound is recorded from now on.
   * @param loaded The promise of `load`.
   */
  constructor(context, source, loaded) {
    this.#context = context;
    this.#source = source;
    void this.#begin(loaded);
  }

  async #begin(loaded) {
    try {
      await loaded;
    } catch (error) {
      console.info('nothing is recorded before the agent comes', error);
      return;
    }
    if (this.#isOver) return;
    this.#tap = new AudioWorkletNode(this.#context, 'tap', { channelCount: 1, channelCountMode: 'explicit' });
    this.#silent = new GainNode(this.#context, { gain: 0 });
    this.#tap.port.onmessage = ({ data }) => this.#keep(data);
    this.#source.connect(this.#tap).connect(this.#silent).connect(this.#context.destination);  // unconnected, it would not run
  }

  #keep(piece) {
    this.#pieces.push(piece);
    this.#samples += piece.length;
    while (this.#samples - this.#pieces[0].length >= KEPT * this.#context.sampleRate) this.#samples -= this.#pieces.shift().length;
  }

  /** Stop, and return the sound: `{ bytes, rate }`, 16-bit mono PCM. */
  async finish() {
    this.close();
    const length = Math.floor(this.#samples * RATE / this.#context.sampleRate);
    if (!length) return { bytes: new Uint8Array(0), rate: RATE };
    const whole = new AudioBuffer({ length: this.#samples, sampleRate: this.#context.sampleRate });
    let at = 0;
    for (const piece of this.#pieces) {
      whole.copyToChannel(piece, 0, at);
      at += piece.length;
    }
    const resampling = new OfflineAudioContext(1, length, RATE);
    const player = new AudioBufferSourceNode(resampling, { buffer: whole });
    player.connect(resampling.destination);
    player.start();
    const samples = (await resampling.startRendering()).getChannelData(0);
    const view = new DataView(new ArrayBuffer(2 * length));
    samples.forEach((sample, i) => view.setInt16(2 * i, Math.max(-1, Math.min(1, sample)) * 32767, true));
    return { bytes: new Uint8Array(view.buffer), rate: RATE };
  }

  /** Stop. */
  close() {
    this.#isOver = true;
    if (!this.#tap) return;
    this.#tap.port.onmessage = null;
    this.#source.disconnect(this.#tap);
    this.#tap.disconnect();
    this.#silent.disconnect();
    this.#tap = null;
  }
}
