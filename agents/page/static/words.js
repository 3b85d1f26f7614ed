// Words: messages about errors and ends, each with its remedy.

const PROBLEMS = {
  'microphone-refused': {
    title: 'The browser keeps your microphone from this page',
    text: 'Allow it: click the icon at the left of the address bar, switch the microphone on, then try again. You can also join without it and type.',
    canType: true,
  },
  'microphone-missing': {
    title: 'No microphone was found',
    text: 'Plug one in, or choose another one in the system’s sound settings, then try again. You can also join without it and type.',
    canType: true,
  },
  'microphone-busy': {
    title: 'The microphone cannot be opened',
    text: 'Another program may be using it. Close that one, or choose another microphone, then try again. You can also join without it and type.',
    canType: true,
  },
  'microphone-insecure': {
    title: 'A microphone needs a safe address',
    text: 'Browsers allow it on https:// addresses and on this machine only. Open the page as http://localhost or http://127.0.0.1 with the same port.',
    canType: true,
  },
  unreachable: {
    title: 'The server cannot be reached',
    text: 'Is it still running? Look at the terminal that started it, start it again if it has ended, then try again.',
  },
  'no-page-server': {
    title: 'The program that served this page is gone',
    text: 'It was ended, or started again on another port. Look at its terminal, and open the address that it prints.',
  },
  'no-answer': {
    title: 'The server does not answer',
    text: 'It took the connection but said nothing for ten seconds. Check that the address belongs to a LiveKit server, then try again.',
  },
  'agent-not-ready': {
    title: 'The agent is not ready yet',
    text: 'Its code is being loaded, or does not load: the terminal of vivavoce dev says which. Then try again.',
  },
  'refused-token': {
    title: 'The server does not accept this page’s key',
    text: 'The API key or secret does not belong to that server, or a clock is wrong by minutes. Check LIVEKIT_API_KEY and LIVEKIT_API_SECRET where the page was started.',
  },
  refused: {
    title: 'The server refused the call',
    text: 'It may be full, or an older one that does not speak /rtc/v1. Its log says more.',
  },
  'media-failed': {
    title: 'No sound gets through to the server',
    text: 'A firewall or VPN may be blocking UDP between this browser and the server. Allow it, or try another network, then call again.',
  },
  'media-failed-firefox': {
    title: 'Firefox does not connect to a server on this machine',
    text: 'It leaves 127.0.0.1 out unless media.peerconnection.ice.loopback is true in about:config. Change that, or open this page in a Chromium-based browser.',
  },
  lost: {
    title: 'The connection to the server was lost',
    text: 'Trying again did not help. Check your network, and whether the server still runs, then call again.',
  },
  'coming-back': {
    title: 'The server cannot be reached',
    text: 'This page tries again for half a minute. If the server restarts at the same address, the call continues by itself.',
  },
  'agent-returning': {
    title: 'You are back in the call',
    text: 'The server was restarted. Waiting for the agent to come back too: it takes a few seconds.',
  },
  'agent-left': {
    title: 'The agent has hung up',
    text: 'The call is over. The conversation stays here until you call again.',
  },
  'agent-lost': {
    title: 'The agent is gone',
    text: 'It left without a reason, perhaps because its process ended. Look at the agent’s terminal, then call again.',
  },
  left: {
    title: 'You have hung up',
    text: 'The conversation stays here until you call again.',
  },
  unknown: {
    title: 'Something went wrong in this page',
    text: 'The browser’s console says more. Reload the page, or call again.',
  },
};

/** Why a server ended the call; the names are LiveKit's DisconnectReason. */
const ENDINGS = {
  DUPLICATE_IDENTITY: { title: 'You joined from somewhere else', text: 'Another tab has taken this call over. Go on there, or call again here.' },
  SERVER_SHUTDOWN: { title: 'The server is shutting down', text: 'Start it again, or wait until it is back, then call again.' },
  PARTICIPANT_REMOVED: { title: 'The call was ended', text: 'The agent hung up, or somebody who looks after the room removed you. You can call again.' },
  ROOM_DELETED: { title: 'The call was ended', text: 'The room was closed, by the agent or by somebody who looks after it. You can call again.' },
  ROOM_CLOSED: { title: 'The call was ended', text: 'The room was closed because everybody had left. You can call again.' },
};

/** Return `{ title, text, canType }` for a CallError's code and detail. */
export function explain({ code, detail }) {
  if (code === 'agent-failed') return { title: 'The agent’s code failed', text: `${detail} – Its terminal shows where. Mend it, then call again.` };
  if (code === 'ended') return ENDINGS[detail] ?? { title: 'The server ended the call', text: `It gave the reason ${detail || 'unknown'}. You can call again.` };
  if (code === 'media-failed' && /firefox/i.test(navigator.userAgent) && /^(localhost|127\.|\[::1\])/.test(location.hostname)) return PROBLEMS['media-failed-firefox'];
  return PROBLEMS[code] ?? PROBLEMS.unknown;
}

export const AGENT_STATES = {
  initializing: 'Getting ready',
  listening: 'Listening',
  thinking: 'Thinking',
  speaking: 'Speaking',
};

export const QUALITIES = { excellent: 'Excellent', good: 'Good', poor: 'Poor', lost: 'Lost' };
