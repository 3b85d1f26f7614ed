// Call: one call, from the click that starts it to its last message. Connects room, sound, captions, turns and view.

import { Captions } from './captions.js';
import { keep, kept } from './kept.js';
import { Replies } from './replies.js';
import { Room } from './room.js';
import { CallError } from './signalling.js';
import { Sound, microphones } from './sound.js';
import { Turns, parseRecord } from './turns.js';
import { View, part } from './view.js';
import { explain } from './words.js';

const INTERRUPT_METHOD = 'vivavoce.interrupt';
const AGENT_LIMIT = 15_000;                              // ms without an agent after which the page shows a remedy
const HUNG_UP_WAIT = 2_000, LOST_WAIT = 15_000;          // ms after an agent has left before the call is over
const RETURN_WAIT = 30_000;                              // ms for the agent to return after a restart of the server
const MEASURE_EVERY = 2_000;                             // ms
const KEPT_LIMIT = 3_000;                                // ms to find the agent of a kept call, before a new one is placed

export class Call {
  #timers = new Set();
  #typed = 0;
  #quality = null;
  #measured = 0;
  #agentTimer = null;

  constructor() {
    this.view = new View();
    this.sound = new Sound(part('players'));
    this.captions = new Captions(part('log'));
    this.replies = new Replies(this.captions, this.view, () => this.room);
    this.turns = new Turns(this.view.turnParts);
    this.room = null;
    this.isMuted = this.isPushToTalk = this.isTalking = false;
    this.hadAgent = this.isWaiting = this.isKept = this.isReturning = false;
  }

  /** Show the lobby. */
  ready() {
    this.view.show('idle');
    void this.#listMicrophones();
  }

  // --- joining

  async join({ withMicrophone, deviceId = '' }) {
    if (this.room) return;
    this.view.show('joining');
    this.view.hideBanner();
    this.captions.clear();
    this.replies.clear();
    this.turns.clear();
    this.sound.start();                                  // before the first await: this click allows sound
    try {
      const stream = withMicrophone ? await this.sound.openMicrophone(deviceId) : null;
      const recording = stream && this.sound.record();   // the caller may speak before the agent is there
      const { url, token } = await this.#connection();
      this.room = this.#follow(new Room(url, token));
      await this.room.join(stream, recording);
    } catch (error) {
      this.#failed(error);
      return;
    }
    if (this.room) this.#joined();                       // it is over if the agent's code has failed meanwhile
  }

  /** Request a token from the page's server. The secret that signs it never comes here. */
  async #connection() {
    const wanted = new URLSearchParams(location.search).get('room');
    const before = kept();
    this.isKept = !wanted && before.room !== undefined;
    const body = { room: wanted ?? before.room ?? '', identity: before.identity ?? '' };
    let answer;
    try {
      answer = await fetch('connection', { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(body) });
    } catch {
      throw new CallError('no-page-server');
    }
    if (!answer.ok) throw new CallError(answer.status === 503 ? 'agent-not-ready' : 'refused', `${answer.status} ${await answer.text()}`);
    this.given = await answer.json();
    return this.given;
  }

  /** The page goes, by a reload perhaps: leave at once, and remember the call for a moment. */
  unload() {
    if (!this.room) return;
    this.leave();
    keep(this.given);
  }

  #follow(room) {
    return room
      .on('state', (state) => this.#stateChanged(room, state))
      .on('agent', (agent) => this.#agentChanged(room, agent))
      .on('track', ({ track, mid }) => this.sound.play(track, mid, () => this.#blocked()))
      .on('text', (stream) => this.#text(room, stream))
      .on('bytes', (stream) => this.replies.takeBytes(room, stream))
      .on('quality', (quality) => { this.#quality = quality; })
      .on('unreachable', () => this.view.banner(explain({ code: 'coming-back' }), { isRepeated: true }))
      .on('anew', () => this.#anew())
      .on('rejoined', () => this.#rejoined(room))
      .on('muted', (isMuted) => this.setMuted(isMuted, { isTold: true }))
      .on('ended', (problem) => this.#ended(problem));
  }

  #failed(error) {
    console.info('no call', error);
    this.room = null;
    this.sound.close();
    this.view.show('idle');
    const problem = error instanceof CallError ? error : { code: 'unknown' };
    if (!(error instanceof CallError)) console.error(error);
    this.view.lobbyProblem(explain(problem));
    if (problem.code !== 'microphone-refused') void this.#listMicrophones();
  }

  #joined() {
    const began = performance.now();
    this.isMuted = this.isTalking = false;
    this.view.room(this.room.name);
    this.view.interruptible(true);
    this.view.clock(0);
    this.#showMicrophone();
    this.#agentChanged(this.room, this.room.agent);
    this.view.status('You are in the call.');
    part('mute').focus();
    void this.#listMicrophones();
    this.#every(1000, () => this.view.clock(Math.floor((performance.now() - began) / 1000)));
    this.#every(MEASURE_EVERY, () => this.#measure(this.room));
    this.#animate(this.room);
  }

  #every(ms, act) { this.#timers.add(setInterval(act, ms)); }

  #animate(room) {
    if (this.room !== room || room.state === 'closed') return;
    this.view.levels(this.sound.levels());
    requestAnimationFrame(() => this.#animate(room));
  }

  async #listMicrophones() {
    this.view.microphones(await microphones(), this.sound.microphoneId);
  }

  async #measure(room) {
    const statistics = await room.statistics();
    if (!statistics || this.room !== room) return;       // the call ended meanwhile
    this.view.measured({ ...statistics, roundTrip: statistics.roundTrip ?? room.roundTrip });
    this.view.health(this.#quality, room.state === 'connected');
  }

  // --- events of the room

  #stateChanged(room, state) {
    if (state === 'connected') {
      const wasLost = document.body.dataset.state === 'reconnecting';
      this.view.show('connected');
      this.view.health(this.#quality, true);
      if (wasLost) {
        this.view.hideBanner();
        this.view.status('The connection is back.');
        if (!this.hadAgent) this.#agentChanged(room, room.agent);  // the wait for one begins anew
      }
    } else if (state === 'reconnecting') {
      this.view.show('reconnecting');
      this.view.health(this.#quality, false);
      this.view.banner({ title: 'The connection was lost', text: 'Trying to get back into the call. You need not do anything.' });
    }
  }

  /** The server was restarted: its tracks and texts so far have ended. */
  #anew() {
    clearTimeout(this.#agentTimer);
    this.sound.closePlayers();
    this.captions.settle();
    this.view.agent(null);
  }

  #rejoined(room) {
    this.captions.note('The server was restarted. You are back in the call.');
    if (room.agent) return;
    this.isReturning = true;
    this.#agentChanged(room, null);
  }

  #agentChanged(room, agent) {
    clearTimeout(this.#agentTimer);
    this.view.agent(agent);
    if (agent) {
      if (this.isWaiting || this.isReturning) this.view.hideBanner();
      if (this.isReturning) this.view.status('The agent is back.');
      this.isWaiting = this.isReturning = false;
      this.hadAgent = true;
      return;
    }
    const end = () => {
      if (room.state !== 'closed' && !room.agent) this.#end(room);
    };
    const hungUp = room.lastAgentReason === 'CLIENT_INITIATED';
    if (this.hadAgent && this.isReturning) {
      this.view.banner(explain({ code: 'agent-returning' }));
      this.#agentTimer = setTimeout(end, RETURN_WAIT);
    } else if (this.hadAgent) {
      this.view.agentGone('Has left the call');
      this.#agentTimer = setTimeout(end, hungUp ? HUNG_UP_WAIT : LOST_WAIT);
    } else this.#agentTimer = this.isKept ? setTimeout(() => this.#callAnew(room), KEPT_LIMIT) : setTimeout(() => room.state === 'connected' && this.#nobodyCame(), AGENT_LIMIT);
  }

  /** The agent of the call before the reload is gone, and a room gets one only once: place a new call. */
  #callAnew(room) {
    const withMicrophone = this.sound.stream !== null;
    this.endCode = 'left';
    room.leave();
    void this.join({ withMicrophone });
  }

  #end(room) {
    const code = room.lastAgentReason === 'CLIENT_INITIATED' ? 'agent-left' : 'agent-lost';
    this.endCode = code;
    room.leave();
  }

  #nobodyCame() {
    this.isWaiting = true;
    this.view.banner({
      title: 'No agent has come yet',
      text: 'Is one running for this server? For example: vivavoce start app.py --url … with the same key. You can stay: it is heard as soon as it joins.',
    });
  }

  #blocked() {
    this.view.banner({ title: 'The browser keeps the sound back', text: 'It wants one more click before this page may play the agent’s voice.' }, { action: 'unblock' });
  }

  #text(room, stream) {
    const isMine = stream.from === room.me.identity;
    const name = isMine ? 'You' : (room.agent?.name || 'Agent');
    const side = isMine ? 'user' : 'agent';
    if (stream.topic === 'lk.transcription') this.captions.transcription(stream, side, name);
    else if (stream.topic === 'lk.chat') this.captions.message(stream.id, side, name, stream.text, stream.isDone);
    else if (stream.topic === 'vivavoce.turns' && stream.isDone && stream.from === room.agent?.identity) this.#record(stream.text);
    else this.replies.take(room, stream);
  }

  #record(text) {
    const record = parseRecord(text);
    if (!record) {
      console.warn('a turn record cannot be read');
      return;
    }
    this.captions.tools(record);
    if (record.interrupted) this.captions.cutOff(record.heard_text ?? '');
    this.turns.add(record);
  }

  #ended(problem) {
    const { code, detail } = this.endCode ? { code: this.endCode, detail: '' } : problem;
    this.endCode = undefined;
    clearTimeout(this.#agentTimer);
    for (const timer of this.#timers) clearInterval(timer);
    this.#timers.clear();
    this.room = null;
    this.hadAgent = this.isWaiting = this.isReturning = false;
    this.#quality = null;
    this.sound.close();
    this.view.levels({ spoken: 0, heard: 0 });
    this.view.noHealth();
    this.view.agentGone('The call is over');
    this.view.show('closed');
    const isRegular = ['left', 'agent-left'].includes(code);
    this.view.banner(explain({ code, detail }), { isBad: !isRegular, action: 'again' });
  }

  // --- actions of the caller

  leave() {
    this.room?.leave();
  }

  setMuted(isMuted, { isTold = false } = {}) {
    if (!this.room || !this.sound.stream) return;
    this.isMuted = isMuted;
    if (!isTold) this.room.setMuted(isMuted);
    this.#showMicrophone();
    this.view.status(isMuted ? 'Muted.' : 'Not muted.');
  }

  /** Push-to-talk sends silence instead of muting, so that the agent hears where a sentence ends. */
  setPushToTalk(isOn) {
    if (isOn && this.isMuted) this.setMuted(false);
    this.isPushToTalk = isOn;
    this.isTalking = false;
    this.#showMicrophone();
  }

  talk(isTalking) {
    if (!this.isPushToTalk || !this.room || this.isTalking === isTalking) return;
    this.isTalking = isTalking;
    this.#showMicrophone();
  }

  #showMicrophone() {
    const { isMuted, isPushToTalk, isTalking } = this;
    this.sound.setSending(isPushToTalk ? isTalking : !isMuted);
    this.view.microphone({ isMuted, isPushToTalk, isTalking, isThere: this.sound.stream !== null });
  }

  /** Take another microphone, or a first one in a call that began without. */
  async chooseMicrophone(deviceId) {
    const room = this.room;
    if (!room) return;
    try {
      const stream = await this.sound.openMicrophone(deviceId);
      await room.setMicrophone(stream);
    } catch (error) {
      if (!(error instanceof CallError)) throw error;
      this.view.banner(explain(error), { isBad: true });
    }
    this.#showMicrophone();
    await this.#listMicrophones();
  }

  send(text) {
    const line = text.trim();
    if (!line || !this.room) return false;
    try {
      this.room.sendChat(line);
    } catch (error) {
      console.info('not sent', error);
      this.view.alert('That was not sent: the connection is interrupted. Try again in a moment.');
      this.captions.note('Not sent: the connection is interrupted. Try again in a moment.');
      return false;
    }
    this.captions.message(`mine ${this.#typed++}`, 'user', 'You', line);
    return true;
  }

  async interrupt() {
    if (!this.room?.agent) return;
    try {
      await this.room.callAgent(INTERRUPT_METHOD);
      this.view.status('Interrupted.');
    } catch (error) {
      console.info('not interrupted', error);
      if (error.isUnsupported) this.view.interruptible(false, 'This agent takes no interruptions by button: talk over it');
      this.view.status(error.isUnsupported ? 'This agent takes no interruptions by button: talk over it.' : 'The agent did not take the interruption.');
    }
  }
}
