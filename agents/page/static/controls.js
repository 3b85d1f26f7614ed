// Controls: converts clicks and keys to actions of the call.

import { part } from './view.js';

// Elements in which the space bar has a meaning of its own. Buttons are left out: Enter presses them too.
const takesSpace = (target) => target instanceof HTMLElement && target.matches('input, select, textarea, summary');

export class Controls {
  constructor(call) {
    this.call = call;
    this.#buttons();
    this.#talk();
    document.addEventListener('keydown', (event) => this.#key(event));
    document.addEventListener('click', ({ target }) => this.#closeSheets(target));
    document.addEventListener('keyup', (event) => {
      if (event.code !== 'Space' || !this.call.isTalking) return;
      event.preventDefault();
      this.call.talk(false);
    });
    addEventListener('blur', () => this.call.talk(false));
  }

  #buttons() {
    const { call } = this;
    const clicks = {
      join: () => call.join({ withMicrophone: true, deviceId: part('lobby-microphone').value }),
      again: () => call.join({ withMicrophone: true, deviceId: part('lobby-microphone').value }),
      'join-typing': () => call.join({ withMicrophone: false }),
      mute: () => call.setMuted(!call.isMuted),
      interrupt: () => call.interrupt(),
      leave: () => call.leave(),
      attach: () => part('file').click(),
      unblock: () => {
        call.sound.unblock();
        call.view.hideBanner();
      },
      'show-turns': () => this.#showTurns(!document.body.classList.contains('shows-turns')),
    };
    for (const [id, act] of Object.entries(clicks)) part(id).addEventListener('click', act);
    part('microphone').addEventListener('change', ({ target }) => call.chooseMicrophone(target.value));
    part('push-to-talk').addEventListener('change', ({ target }) => call.setPushToTalk(target.checked));
    part('file').addEventListener('change', ({ target }) => {
      void call.replies.sendFiles([...target.files]);
      target.value = '';                                 // the same file may be chosen again
    });
    part('composer').addEventListener('submit', (event) => {
      event.preventDefault();
      if (call.send(part('line').value)) part('line').value = '';
    });
  }

  /** On narrow screens conversation and latency take turns. */
  #showTurns(isShown) {
    document.body.classList.toggle('shows-turns', isShown);
    part('show-turns').setAttribute('aria-expanded', String(isShown));
    part('show-turns').textContent = isShown ? 'Conversation' : 'Latency';
  }

  #talk() {
    const button = part('talk');
    button.addEventListener('pointerdown', (event) => {
      button.setPointerCapture(event.pointerId);
      this.call.talk(true);
    });
    for (const name of ['pointerup', 'pointercancel', 'lostpointercapture']) button.addEventListener(name, () => this.call.talk(false));
    button.addEventListener('contextmenu', (event) => event.preventDefault());
  }

  #key(event) {
    const { call } = this;
    if (!call.room || event.ctrlKey || event.metaKey) return;
    if (event.altKey && event.code === 'KeyM') {
      event.preventDefault();
      if (!call.isPushToTalk) call.setMuted(!call.isMuted);
    } else if (event.key === 'Escape') {
      if (part('menu').open || part('health').open) this.#closeSheets(document.body);
      else void call.interrupt();
    } else if (event.code === 'Space' && call.isPushToTalk && !takesSpace(event.target)) {
      event.preventDefault();                            // no scrolling, no click on the focused element
      call.talk(true);
    }
  }

  #closeSheets(target) {
    for (const id of ['menu', 'health']) {
      const sheet = part(id);
      if (sheet.open && !sheet.contains(target)) {
        sheet.open = false;
        if (sheet.contains(document.activeElement)) sheet.querySelector('summary').focus();
      }
    }
  }
}
