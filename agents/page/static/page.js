// Page: the entry; makes the one call, and passes clicks and keys to it.

import { Call } from './call.js';
import { Controls } from './controls.js';

const call = new Call();
new Controls(call);
call.ready();
addEventListener('pagehide', () => call.unload());       // the server need not wait for its timeout
