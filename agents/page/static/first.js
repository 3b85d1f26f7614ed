// FirstWords: sends the agent what the caller said before it came, once it hears the rest.

const ACTIVE = 2;                                        // ParticipantInfo.state
const TOPIC = 'lk.agent.pre-connect-audio-buffer';

export class FirstWords {
  #room;
  #recording;
  #isHeard = false;                                      // whether the microphone has a subscriber

  /**
   * @param room The Room, before it is joined.
   * @param recording The Recording of the microphone.
   */
  constructor(room, recording) {
    this.#room = room;
    this.#recording = recording;
    room.on('heard', (sid) => {
      this.#isHeard ||= sid === room.microphoneSid;
      void this.#send();
    });
    room.on('agent', () => void this.#send());
    room.on('anew', () => { this.#isHeard = false; });
    room.on('state', (state) => (state === 'closed' ? this.#close() : void this.#send()));
  }

  /** Whether they are still to be sent. */
  get isDue() {
    return this.#recording !== null;
  }

  #close() {
    this.#recording?.close();
    this.#recording = null;
  }

  async #send() {
    const room = this.#room, recording = this.#recording;
    if (!recording || !this.#isHeard || room.state !== 'connected' || room.agent?.state !== ACTIVE) return;
    this.#recording = null;
    try {
      const { bytes, rate } = await recording.finish();
      const attributes = { trackId: room.microphoneSid, sampleRate: `${rate}`, channels: '1' };
      await room.sendFile({ name: 'recording', type: '', bytes, attributes }, () => {}, TOPIC);
      room.recordingSent();                              // the next agent of the call need not wait for one
    } catch (error) {
      console.info('what was said before the agent came is not sent', error);
    }
  }
}
