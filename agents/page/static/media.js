// Media: the one peer connection of a call. The page always offers; the microphone goes out, audio and data come in.

import { CallError, within } from './signalling.js';

const AUDIO = 0, MICROPHONE = 2;
const PRE_CONNECT_BUFFER = 6;                            // AudioTrackFeature: a recording of the time before comes too
const FIRST_AUDIO_SECTIONS = 3;                          // Firefox plays only sections of the first offer
const CONNECT_LIMIT = 10_000;                            // ms

const isLoopback = (url) => /^(localhost|127\.\d+\.\d+\.\d+|\[::1\])$/.test(new URL(url).hostname);

/** Return the ICE servers in the browser's form; on the same machine STUN would only ask strangers. */
export function iceServers(url, servers = []) {
  if (isLoopback(url)) return [];
  return servers.map(({ urls = [], username, credential }) => ({ urls, username, credential }));
}

export class Peer {
  #offerId = 0;
  #mustOffer = false;
  #candidates = [];
  #names = {};                                           // mid -> track sid
  #sender = null;

  /**
   * @param servers ICE servers.
   * @param on `{ signal(request), track({ track, mid }), state(connectionState), data(bytes) }`
   */
  constructor(servers, on) {
    this.on = on;
    this.published = null;                               // the microphone's TrackInfo
    this.cid = '';
    const pc = this.pc = new RTCPeerConnection({ iceServers: servers });
    pc.onicecandidate = ({ candidate }) => {
      if (candidate) on.signal({ trickle: { candidateInit: JSON.stringify(candidate), target: 0 } });
    };
    pc.onconnectionstatechange = () => on.state(pc.connectionState);
    // Fires for empty sections too, and again when a section changes hands: the player keeps one element a mid.
    pc.ontrack = ({ track, transceiver }) => {
      if (track.kind === 'audio') on.track({ track, mid: transceiver.mid });
    };
    this.reliable = pc.createDataChannel('_reliable', { ordered: true });
    this.lossy = pc.createDataChannel('_lossy', { ordered: false, maxRetransmits: 0 });
    for (const channel of this.channels) {
      channel.binaryType = 'arraybuffer';
      channel.onmessage = ({ data }) => on.data(new Uint8Array(data));
    }
    for (let i = 0; i < FIRST_AUDIO_SECTIONS; i++) pc.addTransceiver('audio', { direction: 'recvonly' });
  }

  get channels() {
    return [this.reliable, this.lossy];
  }

  /** Send `stream`'s microphone; the caller makes the offer for it next. `isRecorded`: a recording will be sent too. */
  publish(stream, { isRecorded = false } = {}) {
    const [track] = stream.getAudioTracks();
    this.cid = track.id;
    this.#sender = this.pc.addTransceiver(track, { direction: 'sendonly', streams: [stream], sendEncodings: [{ maxBitrate: 48_000 }] }).sender;
    this.on.signal({ add_track: { cid: track.id, name: 'microphone', type: AUDIO, source: MICROPHONE, disable_red: true, audio_features: isRecorded ? [PRE_CONNECT_BUFFER] : [] } });
  }

  /** Replace the sent microphone by another; no negotiation is needed. */
  async replace(track) {
    await this.#sender?.replaceTrack(track);
  }

  async offer(options) {
    if (this.pc.signalingState !== 'stable') {
      this.#mustOffer = true;
      return;
    }
    this.#mustOffer = false;
    await this.pc.setLocalDescription(await this.pc.createOffer(options));
    this.on.signal({ offer: { type: 'offer', sdp: this.pc.localDescription.sdp, id: ++this.#offerId } });
  }

  /** Offer new ICE credentials; an offer whose answer was lost with the websocket is taken back first. */
  async restart() {
    if (this.pc.signalingState === 'have-local-offer') await this.pc.setLocalDescription({ type: 'rollback' });
    await this.offer({ iceRestart: true });
  }

  async answer({ sdp, id, mid_to_track_id: names }) {
    if (id && id !== this.#offerId) return;              // a later offer has replaced this one
    this.#names = names ?? {};
    await this.pc.setRemoteDescription({ type: 'answer', sdp });
    for (const candidate of this.#candidates.splice(0)) await this.pc.addIceCandidate(candidate);
    if (this.#mustOffer) await this.offer();
  }

  async candidate(init) {
    const candidate = JSON.parse(init);
    if (this.pc.remoteDescription) await this.pc.addIceCandidate(candidate);
    else this.#candidates.push(candidate);
  }

  /** Add this number of sections for others' tracks, at the server's request. */
  async addSections({ num_audios: audios = 0, num_videos: videos = 0 }) {
    for (let i = 0; i < audios; i++) this.pc.addTransceiver('audio', { direction: 'recvonly' });
    for (let i = 0; i < videos; i++) this.pc.addTransceiver('video', { direction: 'recvonly' });
    await this.offer();
  }

  /** The sid of the track that plays in section `mid`. */
  trackSid(mid) {
    return this.#names[mid];
  }

  /** Wait until media flows and, the first time, data can be sent. */
  ready() {
    const { pc, reliable } = this;
    const done = new Promise((resolve, reject) => {
      const look = () => {
        if (pc.connectionState === 'connected' && pc.signalingState === 'stable' && reliable.readyState === 'open') resolve();
        else if (pc.connectionState === 'closed') reject(new CallError('media-failed', 'closed'));
      };
      for (const name of ['connectionstatechange', 'signalingstatechange']) pc.addEventListener(name, look);
      reliable.addEventListener('open', look);
      look();
    });
    return within(done, CONNECT_LIMIT, 'media-failed');
  }

  /** The state that a server needs when a websocket comes back. */
  syncState(received) {
    return {
      offer: { type: 'offer', sdp: this.pc.localDescription.sdp },
      answer: { type: 'answer', sdp: this.pc.remoteDescription.sdp },
      subscription: { subscribe: false },
      publish_tracks: this.published ? [{ cid: this.cid, track: this.published }] : [],
      data_channels: this.channels.map(({ label, id }) => ({ label, id, target: 0 })),
      datachannel_receive_states: received,
    };
  }

  /** Return loss and jitter of the received audio, summed over the tracks: `{ packets, lost, jitter (ms), roundTrip (ms) }`. */
  async statistics() {
    const sum = { packets: 0, lost: 0, jitter: 0, roundTrip: null };
    for (const item of (await this.pc.getStats()).values()) {
      if (item.type === 'inbound-rtp' && item.kind === 'audio') {
        sum.packets += item.packetsReceived ?? 0;
        sum.lost += item.packetsLost ?? 0;
        sum.jitter = Math.max(sum.jitter, (item.jitter ?? 0) * 1000);
      } else if (item.type === 'candidate-pair' && item.nominated && item.currentRoundTripTime !== undefined) {
        sum.roundTrip = item.currentRoundTripTime * 1000;
      }
    }
    return sum;
  }

  close() {
    this.pc.onconnectionstatechange = null;
    this.pc.close();
  }
}
