// View: the page's elements, which show the state of a call. It decides nothing.

import { AGENT_STATES, QUALITIES } from './words.js';

const METER_STEP = 5;                                    // percent: a meter for screen readers changes in steps
const LEVELS = { excellent: 'good', good: 'good', poor: 'poor', lost: 'lost' };

/** Return the element with this id. */
export const part = (id) => document.getElementById(id);

export class View {
  get turnParts() {
    return { list: part('turn-list'), summary: part('turns-summary'), empty: part('turns-empty'), legend: part('turns-legend') };
  }

  /** Show one of the page's faces: idle, joining, connected, reconnecting, closed. */
  show(state) {
    document.body.dataset.state = state;
    const isLobby = state === 'idle' || state === 'joining';
    part('lobby').hidden = !isLobby;
    part('call').hidden = part('turns').hidden = isLobby;
    part('join').disabled = part('join-typing').disabled = state === 'joining';
    if (isLobby) part('join-text').textContent = state === 'joining' ? 'Joining …' : 'Start the call';
  }

  /** Show in the lobby why there is no call. */
  lobbyProblem({ title, text }) {
    part('lobby-title').textContent = title;
    part('lobby-text').textContent = text;
    part('join-text').textContent = 'Try again';
    part('join').focus();
    this.alert(`${title}. ${text}`);
  }

  room(name) {
    part('room-name').textContent = name ? `Room ${name}` : '';
  }

  /**
   * Show a message above the conversation.
   * @param action The id of the one button that helps, if any.
   * @param isRepeated Whether it may be shown already; then it is not read aloud again.
   */
  banner({ title, text }, { isBad = false, action = '', isRepeated = false } = {}) {
    if (isRepeated && !part('banner').hidden && part('banner-title').textContent === title) return;
    part('banner-title').textContent = title;
    part('banner-text').textContent = text;
    part('banner').classList.toggle('bad', isBad);
    for (const id of ['again', 'unblock']) part(id).hidden = id !== action;
    part('banner').hidden = false;
    this.alert(`${title}. ${text}`);
    if (action) part(action).focus();
  }

  hideBanner() {
    part('banner').hidden = true;
  }

  /** Have a screen reader read `text` at the next pause. */
  status(text) {
    part('status').textContent = text;
  }

  /** Have a screen reader read `text` at once. */
  alert(text) {
    part('alert').textContent = text;
  }

  // --- files

  /** Show the button that sends files, if the agent takes them. */
  takesFiles(limits) {
    part('attach').hidden = !limits;
    part('file').accept = (limits?.media_types ?? []).join(',');
  }

  // --- the agent

  agent(agent) {
    const state = agent ? (agent.attributes?.['lk.agent.state'] ?? 'listening') : 'none';
    part('orb').dataset.agent = state;
    part('agent-name').textContent = agent?.name || 'Agent';
    part('agent-state').textContent = agent ? (AGENT_STATES[state] ?? 'Here') : 'Waiting for the agent';
  }

  agentGone(text) {
    part('orb').dataset.agent = 'none';
    part('agent-state').textContent = text;
  }

  clock(seconds) {
    part('clock').textContent = `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, '0')}`;
  }

  // --- the microphone

  levels({ spoken, heard }) {
    part('orb').style.setProperty('--level', heard.toFixed(2));
    part('level').style.setProperty('--level', spoken.toFixed(2));
    const value = String(Math.round((spoken * 100) / METER_STEP) * METER_STEP);
    if (part('level').getAttribute('aria-valuenow') !== value) part('level').setAttribute('aria-valuenow', value);
  }

  /** Show whether the microphone is muted, held back by push-to-talk, or missing. */
  microphone({ isMuted, isPushToTalk, isTalking, isThere }) {
    part('mute').hidden = isPushToTalk;
    part('talk').hidden = !isPushToTalk;
    part('mute').disabled = part('talk').disabled = part('push-to-talk').disabled = !isThere;
    part('mute').setAttribute('aria-pressed', String(isMuted || !isThere));
    part('mute-text').textContent = isThere ? (isMuted ? 'Unmute' : 'Mute') : 'No microphone';
    part('mute').title = isThere ? `${isMuted ? 'Unmute' : 'Mute'} (Alt+M)` : 'Choose a microphone in the settings';
    part('talk').setAttribute('aria-pressed', String(isTalking));
    part('push-to-talk').checked = isPushToTalk;
    part('level').hidden = !isThere;
    part('level').classList.toggle('silent', !isThere || (isPushToTalk ? !isTalking : isMuted));
  }

  /** Offer these microphones in both lists. */
  microphones(devices, chosen) {
    for (const list of [part('lobby-microphone'), part('microphone')]) {
      const options = devices.filter(({ label }) => label).map(({ id, label }) => new Option(label, id, false, id === chosen));
      list.replaceChildren(...(options.length ? options : [new Option('System default', '')]));
    }
  }

  interruptible(isPossible, why = 'Interrupt the agent (Esc)') {
    part('interrupt').disabled = !isPossible;
    part('interrupt').title = why;
  }

  // --- the connection

  health(quality, isConnected) {
    part('health').dataset.level = isConnected ? (LEVELS[quality] ?? 'good') : 'lost';
    part('health-quality').textContent = isConnected ? (QUALITIES[quality] ?? 'Being measured') : 'Interrupted';
    part('health-text').textContent = isConnected ? (QUALITIES[quality] ?? 'Connected') : 'Reconnecting';
  }

  noHealth() {
    part('health').dataset.level = 'none';
    part('health-text').textContent = 'Not connected';
    for (const id of ['health-quality', 'health-trip', 'health-jitter', 'health-lost']) part(id).textContent = '–';
  }

  measured({ roundTrip, jitter, packets, lost }) {
    part('health-trip').textContent = roundTrip === null ? '–' : `${Math.round(roundTrip)} ms`;
    part('health-jitter').textContent = `${Math.round(jitter)} ms`;
    part('health-lost').textContent = packets ? `${((100 * lost) / (packets + lost)).toFixed(1)} %` : '–';
  }
}
