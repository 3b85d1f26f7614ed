// Tap: hands the samples of its input to the page, in the browser's audio thread.

const PIECE = 1024;                                      // samples in one message

class Tap extends AudioWorkletProcessor {
  #piece = new Float32Array(PIECE);
  #filled = 0;

  process([[channel]]) {
    for (const sample of channel ?? []) {
      this.#piece[this.#filled++] = sample;
      if (this.#filled === PIECE) {
        this.port.postMessage(this.#piece.slice());
        this.#filled = 0;
      }
    }
    return true;
  }
}

registerProcessor('tap', Tap);
