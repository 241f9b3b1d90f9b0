// One connection to the server for all open pages: a browser allows six per server, and the seventh
// page would wait for ever. A page that opens is sent the last message; later ones go to all pages.
import { listen } from "./changes.js";

const pages = new BroadcastChannel("city-changes");
let source = null;
let last = null;

function tell(message) {
  last = message;
  pages.postMessage(message);
}

self.onconnect = (event) => {
  // The browser gives up for good if it was refused, for example by a server that started again.
  if (!source || source.readyState === EventSource.CLOSED) source = listen(tell);
  else if (last) event.ports[0].postMessage(last);
};
