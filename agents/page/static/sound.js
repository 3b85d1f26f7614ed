// Sound: the microphone, the players of other voices, and the level of each.

import { Recording } from './recording.js';
import { CallError } from './signalling.js';

const MICROPHONE_PROBLEMS = {
  NotAllowedError: 'microphone-refused',
  SecurityError: 'microphone-refused',
  NotFoundError: 'microphone-missing',
  OverconstrainedError: 'microphone-missing',
  NotReadableError: 'microphone-busy',
  AbortError: 'microphone-busy',
};
const QUIET = -60, LOUD = -10;                           // dB below full scale: the two ends of a meter

/** The level of an audio node: 0 (silent) to 1 (loud), on a scale of decibels. */
class Level {
  #analyser;
  #samples;

  constructor(context) {
    this.#analyser = context.createAnalyser();
    this.#analyser.fftSize = 1024;
    this.#samples = new Float32Array(this.#analyser.fftSize);
  }

  get node() {
    return this.#analyser;
  }

  read() {
    this.#analyser.getFloatTimeDomainData(this.#samples);
    const power = this.#samples.reduce((sum, sample) => sum + sample * sample, 0) / this.#samples.length;
    return Math.min(1, Math.max(0, (10 * Math.log10(power + 1e-12) - QUIET) / (LOUD - QUIET)));
  }
}

/** Return the browser's microphones: `[{ id, label }]`; labels come only after it was allowed. */
export async function microphones() {
  const devices = (await navigator.mediaDevices?.enumerateDevices()) ?? [];
  return devices.filter(({ kind, deviceId }) => kind === 'audioinput' && deviceId).map(({ deviceId, label }) => ({ id: deviceId, label }));
}

export class Sound {
  #context = null;
  #players = new Map();                                  // mid -> { audio, source }
  #heard = null;
  #input = null;
  #spoken = null;
  #loaded = null;                                        // what records

  /** @param parent The parent of the audio elements. */
  constructor(parent) {
    this.parent = parent;
    this.stream = null;
  }

  /** Call it in the click that joins: a browser plays no sound before a click. */
  start() {
    this.#context ??= new AudioContext();
    this.#loaded ??= Recording.load(this.#context);
    this.#heard ??= new Level(this.#context);
    this.#spoken ??= new Level(this.#context);
    void this.#context.resume();
  }

  /** Open a microphone, which replaces the last one. Throws CallError. */
  async openMicrophone(deviceId = '') {
    if (!navigator.mediaDevices?.getUserMedia) throw new CallError('microphone-insecure');
    const audio = { echoCancellation: true, noiseSuppression: true, autoGainControl: true, ...(deviceId && { deviceId: { exact: deviceId } }) };
    let stream;
    try {
      stream = await navigator.mediaDevices.getUserMedia({ audio });
    } catch (error) {
      throw new CallError(MICROPHONE_PROBLEMS[error.name] ?? 'microphone-busy', error.name);
    }
    const isEnabled = this.stream?.getAudioTracks()[0].enabled ?? true;
    this.closeMicrophone();
    this.stream = stream;
    this.setSending(isEnabled);
    this.#input = this.#context.createMediaStreamSource(stream);
    this.#input.connect(this.#spoken.node);
    return stream;
  }

  /** Record what the microphone carries, this one or one that replaces it. */
  record() {
    return new Recording(this.#context, this.#spoken.node, this.#loaded);
  }

  /** The id of the microphone in use. */
  get microphoneId() {
    return this.stream?.getAudioTracks()[0]?.getSettings().deviceId ?? '';
  }

  /** Send the microphone's audio, or silence. */
  setSending(isSending) {
    for (const track of this.stream?.getAudioTracks() ?? []) track.enabled = isSending;
  }

  closeMicrophone() {
    this.#input?.disconnect();
    for (const track of this.stream?.getTracks() ?? []) track.stop();
    this.stream = this.#input = null;
  }

  /** Play a track; one element a section, or a section that is used again would sound twice. */
  play(track, mid, onBlocked) {
    if (this.#players.has(mid)) return;
    const audio = document.createElement('audio');
    const stream = new MediaStream([track]);
    audio.autoplay = true;
    audio.srcObject = stream;
    this.parent.append(audio);
    const source = this.#context.createMediaStreamSource(stream);
    source.connect(this.#heard.node);
    this.#players.set(mid, { audio, source });
    audio.play().catch((error) => {
      if (error.name === 'NotAllowedError') onBlocked();
    });
  }

  /** Play the audio that the browser held back, in a click. */
  unblock() {
    void this.#context?.resume();
    for (const { audio } of this.#players.values()) audio.play().catch((error) => console.warn('still no sound', error));
  }

  /** The levels of the caller and the agent, 0 to 1 each. */
  levels() {
    return { spoken: this.stream ? this.#spoken.read() : 0, heard: this.#heard?.read() ?? 0 };
  }

  /** Stop the players; the microphone continues. */
  closePlayers() {
    for (const { audio, source } of this.#players.values()) {
      source.disconnect();
      audio.srcObject = null;
      audio.remove();
    }
    this.#players.clear();
  }

  /** Stop everything; `start` begins again. */
  close() {
    this.closeMicrophone();
    this.closePlayers();
    this.#heard = this.#spoken = this.#loaded = null;
    void this.#context?.close();
    this.#context = null;
  }
}
