// Start: theme, chats, server, view, keys.

import { html, render } from "./html.js";
import { keepPending, openAll } from "./conversations.js";
import { reconnect } from "./generate.js";
import { listen } from "./keys.js";
import { refresh } from "./models.js";
import { applyTheme, settings } from "./settings.js";
import { state } from "./store.js";
import { App } from "./ui/app.js";

applyTheme();
state.sidebar = settings.sidebar && !matchMedia("(max-width: 800px)").matches;
await openAll(reconnect);
render(html`<${App} />`, document.getElementById("page"));
listen();
refresh();
document.addEventListener("visibilitychange", () => {
  if (document.hidden) keepPending();
  else refresh();
});
window.addEventListener("pagehide", keepPending);
