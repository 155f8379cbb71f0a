// The branch on screen, and the rule of its scroll: it follows the answer only while the reader is at the end.

import { html, useLayoutEffect, useRef, useState } from "./base.js";
import { displayName, modelFor } from "../models.js";
import { childIndex, path, siblings } from "../tree.js";
import { copy } from "../clipboard.js";
import { IconButton } from "./icons.js";
import { Message } from "./message.js";

/** The server's machine, in words. */
const HERE = ["localhost", "127.0.0.1", "[::1]"].includes(location.hostname) ? "this machine" : location.hostname;
/** How near the end still counts as the end. */
const END_PX = 48;

export function Thread({ state, conversation }) {
  const scroller = useRef(null);
  const content = useRef(null);
  const [away, setAway] = useState(false);
  const branch = path(conversation);
  const index = childIndex(conversation);

  useLayoutEffect(() => {
    const box = scroller.current;
    let following = true;
    const toEnd = () => {
      box.scrollTop = box.scrollHeight;
    };
    const atEnd = () => box.scrollHeight - box.scrollTop - box.clientHeight < END_PX;
    const scrolled = () => {
      following = atEnd();
      setAway(!following);
    };
    // A wheel turned upwards means "let me read", even before the scroll event comes.
    const wheel = (event) => {
      if (event.deltaY < 0) following = false;
    };
    const grown = new ResizeObserver(() => following && toEnd());
    grown.observe(content.current);
    grown.observe(box);
    box.addEventListener("scroll", scrolled, { passive: true });
    box.addEventListener("wheel", wheel, { passive: true });
    const follow = () => {
      following = true;
      toEnd();
    };
    box.addEventListener("zinc-follow", follow);
    toEnd();
    return () => grown.disconnect();
  }, []);

  // Sending always goes to the end.
  const last = branch.at(-1);
  useLayoutEffect(() => {
    if (last && state.live.has(last.id)) scroller.current.dispatchEvent(new Event("zinc-follow"));
  }, [last?.id]);

  const toEnd = () => scroller.current.dispatchEvent(new Event("zinc-follow"));
  return html`<div class="thread" ref=${scroller} tabindex="-1" onClick=${copyCode}>
    <div class="column" ref=${content}>
      ${branch.length === 0 && html`<${Empty} state=${state} />`}
      ${branch.map(
        (
          message,
        ) => html`<${Message} key=${message.id} conversation=${conversation} message=${message} rev=${message.rev ?? 0}
        live=${state.live.get(message.id)} all=${siblings(conversation, message, index)} last=${message === last}
        ready=${state.server.status} starts=${conversation.start === message.id && message !== branch[0]} />`,
      )}
    </div>
    ${away && html`<div class="to-end"><${IconButton} icon="arrowDown" label="Go to the end" onClick=${toEnd} /></div>`}
  </div>`;
}

function Empty({ state }) {
  const id = modelFor(state.current);
  return html`<div class="empty">
    <span class="mark large" aria-hidden="true"><sup>30</sup>Zn</span>
    <h1>What is on your mind?</h1>
    <p class="faint">
      ${
        id
          ? html`<span class="nowrap">${displayName(id)}</span> runs on ${HERE}. Nothing you write goes anywhere else.`
          : "Choose a model above to begin."
      }
    </p>
  </div>`;
}

/** Copy buttons of code blocks are made by codeblock.js, outside the view tree. */
async function copyCode(event) {
  const button = event.target.closest("[data-copy-code]");
  if (!button || !(await copy(button.closest(".code").querySelector("code").textContent))) return;
  button.textContent = "Copied";
  setTimeout(() => {
    button.textContent = "Copy";
  }, 1600);
}
