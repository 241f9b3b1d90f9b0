// Starts everything on a page. Plain modules: no build step, nothing from elsewhere.
import { watchChanges } from "./live.js";
import { followLogs } from "./logs.js";
import { handleKeys } from "./keys.js";
import { handleForms } from "./forms.js";
import { updateTimes } from "./times.js";

handleKeys();
handleForms();
updateTimes();
followLogs();
watchChanges(() => {
  updateTimes();
  followLogs();
});
document.documentElement.dataset.ready = "1";
