// Room: the page's view of a call: joins, follows the participants, returns after a lost connection, leaves.
//
// Events: state ('connecting' | 'connected' | 'reconnecting' | 'closed'), agent (ParticipantInfo or null), track, text, bytes,
// quality, muted, heard, unreachable (a try to return failed), anew (all tracks and the agent so far are gone),
// rejoined, ended ({ code, detail }). Each is a CustomEvent whose `detail` is the value.

import { DataLink } from './data.js';
import { FirstWords } from './first.js';
import { Peer, iceServers } from './media.js';
import { ConnectionQuality, DisconnectReason } from './schema.js';
import { CallError, LeaveAction, Signalling } from './signalling.js';

const AGENT = 4;                                         // ParticipantInfo.kind
const DISCONNECTED = 3;                                  // ParticipantInfo.state
const SIGNAL_LOST = 1, MEDIA_LOST = 2;                   // ReconnectReason
const RETURN_PAUSES = [0, 500, 1000, 2000, 3000, 4000, 5000, 5000, 5000, 5000];  // ms before each try: a server starts in that time
const TRIES_IN_SILENCE = 2;
const CLIENT_INITIATED = 1;
const FAILURE = 'vivavoce.error';                        // attribute of an agent under development: the error of its code
const PARTS = 'vivavoce.parts';                          // topic of rich replies
const MOST_BUFFERED = 250_000;                           // bytes

const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

export class Room extends EventTarget {
  #signalling;
  #peer = null;
  #data;
  #participants = new Map();                             // sid -> ParticipantInfo, others only
  #agent = null;
  #failure;                                              // the error of an agent's code: none comes any more
  #microphone = null;
  #firstWords = null;
  #messages = Promise.resolve();
  #early = null;                                         // data that came before the agent is known; null: nothing is held
  #abort;
  #over = new Promise((_, reject) => { this.#abort = reject; });

  constructor(url, token) {
    super();
    this.url = url;
    this.state = 'new';
    this.#over.catch(() => {});                          // it may end while no code waits for it
    this.me = null;
    this.name = '';
    this.isMuted = false;
    this.#signalling = new Signalling(url, token, {
      message: (message) => this.#queue(message),
      lost: () => {
        if (this.state === 'connecting') this.#abort(new CallError('unreachable'));
        else this.#recover(SIGNAL_LOST);
      },
    });
    this.#data = this.#dataLink();
  }

  #dataLink() {
    return new DataLink((bytes) => this.#sendData(bytes), (stream) => this.#emit('text', stream), (stream) => this.#emit('bytes', stream));
  }

  on(type, listener) {
    this.addEventListener(type, (event) => listener(event.detail));
    return this;
  }

  get agent() { return this.#agent; }

  get roundTrip() { return this.#signalling.roundTrip; }

  get microphoneSid() { return this.#peer?.published?.sid; }

  /** Join; `microphone` is a MediaStream or null for none, `recording` the Recording of it. Throws CallError. */
  async join(microphone, recording = null) {
    this.#microphone = microphone;
    this.#firstWords = recording && new FirstWords(this, recording);
    this.#become('connecting');
    try {
      const { join } = await this.#soon(this.#signalling.open());
      if (!join) throw new CallError('refused', 'no join response');
      await this.#enter(join);
    } catch (error) {
      this.#end(null);
      throw error;
    }
    this.#become('connected');
    this.#chooseAgent();
    this.#readEarly();
  }

  /** Build the parts of a call after a join response: a peer connection, the microphone in it, data channels. */
  async #enter(join) {
    this.me = join.participant;
    this.name = join.room?.name ?? '';
    this.#early = [];
    this.#peer = new Peer(iceServers(this.url, join.ice_servers), this.#peerEvents());
    this.#signalling.keepAlive(join.ping_interval, join.ping_timeout);
    for (const participant of join.other_participants ?? []) this.#follow(participant);
    if (this.#microphone) this.#peer.publish(this.#microphone, { isRecorded: this.#firstWords?.isDue });
    await this.#peer.offer();
    await this.#soon(this.#peer.ready());
  }

  /** Wait for `promise`, but not longer than the call lasts. */
  #soon(promise) {
    promise.catch(() => {});
    return Promise.race([promise, this.#over]);
  }

  #peerEvents() {
    return {
      signal: (request) => this.#signalling.send(request),
      track: (track) => this.#emit('track', track),
      data: (bytes) => {
        if (this.#early) this.#early.push(bytes);
        else this.#data.take(bytes);
      },
      state: (state) => {
        if (state === 'failed') this.#recover(MEDIA_LOST);
      },
    };
  }

  #sendData(bytes) {
    const channel = this.#peer?.reliable;
    if (channel?.readyState !== 'open') throw new CallError('cannot-send');
    channel.send(bytes);
  }

  #emit(type, detail) { this.dispatchEvent(new CustomEvent(type, { detail })); }

  #become(state) {
    if (this.state === state) return;
    this.state = state;
    this.#emit('state', state);
  }

  // --- messages of the server, one after another

  #queue(message) {
    const peer = this.#peer;
    this.#messages = this.#messages.then(() => (peer === this.#peer ? this.#take(message) : null)).catch((error) => {
      if (this.state !== 'closed') console.warn('a signalling message failed', Object.keys(message), error);
    });
  }

  async #take(message) {
    if (this.state === 'closed') return;
    if (message.answer) await this.#peer.answer(message.answer);
    else if (message.trickle) await this.#peer.candidate(message.trickle.candidateInit);
    else if (message.media_sections_requirement) await this.#peer.addSections(message.media_sections_requirement);
    else if (message.update) for (const participant of message.update.participants ?? []) this.#follow(participant);
    else if (message.track_published) this.#published(message.track_published.track);
    else if (message.track_subscribed) this.#emit('heard', message.track_subscribed.track_sid);
    else if (message.connection_quality) this.#rate(message.connection_quality.updates ?? []);
    else if (message.mute && message.mute.sid === this.#peer.published?.sid) this.#muted(!!message.mute.muted);
    else if (message.leave) this.#left(message.leave);
  }

  #left({ action = LeaveAction.DISCONNECT, reason = 0 }) {
    if (action === LeaveAction.DISCONNECT) this.#end(new CallError('ended', DisconnectReason[reason]));
    else void this.#recover(SIGNAL_LOST, { isAnew: action === LeaveAction.RECONNECT });
  }

  #follow(participant) {
    if (participant.sid === this.me.sid) {
      this.me = participant;
      return;
    }
    const known = this.#participants.get(participant.sid);
    if (participant.kind === AGENT) this.#failure ??= participant.attributes?.[FAILURE];
    if ((participant.state ?? 0) === DISCONNECTED) {
      this.#participants.delete(participant.sid);
      if (known?.sid === this.#agent?.sid) this.lastAgentReason = DisconnectReason[participant.disconnect_reason ?? 0];
    } else if (!known || (known.version ?? 0) <= (participant.version ?? 0)) this.#participants.set(participant.sid, participant);
    if (this.state === 'connected') this.#chooseAgent();
  }

  /** The agent is the newest one: during a reload of code, the old one and the new one are both present for a moment. */
  #chooseAgent() {
    if (this.#failure) return this.leave(new CallError('agent-failed', this.#failure));
    const agents = [...this.#participants.values()].filter(({ kind }) => kind === AGENT);
    const agent = agents.at(-1) ?? null;
    if (!agent && !this.#agent) return;
    this.#agent = agent;
    this.#emit('agent', agent);
  }

  /** The data channel may open, and the agent send, before the call counts as connected. */
  #readEarly() {
    const early = this.#early ?? [];
    this.#early = null;
    for (const bytes of early) this.#data.take(bytes);
  }

  #published(track) {
    this.#peer.published = track;
    if (this.isMuted) this.#signalling.send({ mute: { sid: track.sid, muted: true } });
  }

  #rate(updates) {
    for (const { participant_sid: sid, quality } of updates) {
      if (sid === this.me.sid) this.#emit('quality', ConnectionQuality[quality ?? 0].toLowerCase());
    }
  }

  // --- actions of the caller

  /** Tell everyone whether the microphone is muted; silencing its track is up to its owner. */
  setMuted(isMuted) {
    this.isMuted = isMuted;
    const sid = this.microphoneSid;
    if (sid) this.#signalling.send({ mute: { sid, muted: isMuted } });
  }

  #muted(isMuted) {
    this.isMuted = isMuted;
    this.#emit('muted', isMuted);
  }

  /** Send another microphone; the first one of a call that began without is published. */
  async setMicrophone(stream) {
    this.#microphone = stream;
    if (this.#peer.published) await this.#peer.replace(stream.getAudioTracks()[0]);
    else {
      this.#peer.publish(stream);
      await this.#peer.offer();
    }
  }

  /** Send a typed text to the agent. */
  sendChat(text) {
    this.#data.sendText(text, 'lk.chat', this.#agent ? [this.#agent.identity] : []);
  }

  /** Send the agent an answer to a part of its replies. Throws CallError. */
  sendAnswer(answer) {
    if (!this.#agent) throw new CallError('no-agent');
    this.#data.sendText(JSON.stringify(answer), PARTS, [this.#agent.identity]);
  }

  /** Send the agent a file `{ name, type, bytes, attributes }`; `began` gets the id of the transfer. Throws CallError. */
  async sendFile(file, began, topic = PARTS) {
    if (!this.#agent) throw new CallError('no-agent');
    await this.#data.sendFile(file, topic, [this.#agent.identity], () => this.#drained(), began);
  }

  /** Announce no recording of the microphone any more. */
  recordingSent() { this.#signalling.send({ update_audio_track: { track_sid: this.microphoneSid, features: [] } }); }

  /** Wait until the data channel has sent most of what it holds: captions should not wait behind a file. */
  async #drained() {
    while ((this.#peer?.reliable?.bufferedAmount ?? 0) > MOST_BUFFERED) {
      if (this.state === 'closed') throw new CallError('cannot-send');
      await pause(20);
    }
  }

  /** Call a method of the agent. Throws RpcError. */
  async callAgent(method, payload = '') {
    if (!this.#agent) throw new CallError('no-agent');
    return this.#data.call(this.#agent.identity, method, payload);
  }

  /** Return loss, jitter and round trip. */
  async statistics() { return this.#peer?.statistics(); }

  /** Leave the room; works while the page is being closed too. `problem` says why, if the caller did not hang up. */
  leave(problem = new CallError('left')) {
    if (this.state === 'closed') return;
    this.#signalling.send({ leave: { reason: CLIENT_INITIATED } });
    this.#end(problem);
  }

  // --- after a loss: a new websocket for the same participant, then an ICE restart; sound and data channels continue.
  // A restarted server does not know the participant any more; the page joins it as at the beginning.

  async #recover(reason, { isAnew = false } = {}) {
    if (this.state !== 'connected') return;              // joining fails by itself; a recovery continues
    this.#become('reconnecting');
    let problem = new CallError('lost');
    let mustRejoin = isAnew;
    for (const [tries, wait] of RETURN_PAUSES.entries()) {
      await pause(wait);
      if (this.state !== 'reconnecting') return;
      try {
        mustRejoin ||= !await this.#resume(reason);
        if (mustRejoin) await this.#rejoin();
        if (this.state !== 'reconnecting') return;
        this.#become('connected');
        this.#chooseAgent();
        if (mustRejoin) this.#emit('rejoined');
        this.#readEarly();
        return;
      } catch (error) {
        if (this.state !== 'reconnecting') return;
        console.info('coming back failed', error);
        if (error.isFinal) {
          problem = new CallError(error.code === 'refused-token' ? error.code : 'lost', error.detail);
          break;
        }
        if (tries >= TRIES_IN_SILENCE) this.#emit('unreachable');
      }
    }
    this.#end(problem);
  }

  /** Continue as the same participant; false if the server wants it to join again. */
  async #resume(reason) {
    let answer;
    try {
      answer = await this.#signalling.open({ reconnect: true, reconnect_reason: reason, participant_sid: this.me.sid });
    } catch (error) {
      if (error.action === LeaveAction.RECONNECT) return false;
      throw error;
    }
    const { reconnect } = answer;
    if (!reconnect) throw new CallError('refused', 'no reconnect response');
    this.#signalling.keepAlive();
    if (reconnect.ice_servers) this.#peer.pc.setConfiguration({ iceServers: iceServers(this.url, reconnect.ice_servers) });
    this.#signalling.send({ sync_state: this.#peer.syncState(this.#data.received) });
    await this.#peer.restart();
    await this.#soon(this.#peer.ready());                // Chromium says 'failed' once more before 'connected'
    return true;
  }

  /** Join under the same name, with the same microphone. */
  async #rejoin() {
    const { join } = await this.#soon(this.#signalling.open());
    if (!join) throw new CallError('refused', 'no join response');
    this.#peer.close();
    this.#data.close();
    this.#data = this.#dataLink();
    this.#participants.clear();
    this.#agent = null;
    this.lastAgentReason = undefined;
    this.#emit('anew');
    await this.#enter(join);
  }

  #end(problem) {
    if (this.state === 'closed') return;
    this.#signalling.close();
    this.#peer?.close();
    this.#data.close();
    this.#abort(problem ?? new CallError('left'));
    this.#become('closed');
    if (problem) this.#emit('ended', { code: problem.code, detail: problem.detail });
  }
}
