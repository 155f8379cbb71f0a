// One message: what was said, its thinking, its state, its figures and what can be done with it.

import { Component, html, names, useState } from "./base.js";
import { copy } from "../clipboard.js";
import { keep } from "../conversations.js";
import { bytes } from "../format.js";
import { can, edit, regenerate, resume } from "../generate.js";
import { displayName } from "../models.js";
import { changed } from "../store.js";
import { turnTo } from "../tree.js";
import { Calls } from "./calls.js";
import { Editor } from "./editor.js";
import { Fault } from "./fault.js";
import { Figures } from "./figures.js";
import { Button, Icon, IconButton } from "./icons.js";
import { Markdown } from "./markdown.js";
import { Phase, Thinking } from "./progress.js";

const CUT = {
  stopped: "Stopped.",
  cut: "Cut off: the page was closed or the connection lost.",
  length: "Stopped at the length limit.",
};
const EMPTY = "The model ended without saying anything.";
/** Longer messages of the user are folded. */
const FOLD_CHARS = 1800;

/** Draws itself again only when its message has changed: a thread may be long, and a stream is fast. */
export class Message extends Component {
  shouldComponentUpdate(next, nextState) {
    const now = this.props;
    return (
      next.message !== now.message ||
      next.rev !== now.rev ||
      next.live !== now.live ||
      next.last !== now.last ||
      next.starts !== now.starts ||
      next.all.join() !== now.all.join() ||
      next.ready !== now.ready ||
      nextState !== this.state
    );
  }

  render({ conversation, message, live, all, last, starts }, { editing }) {
    const { role } = message;
    const View = role === "user" ? UserText : Answer;
    const finish = (text) => {
      this.setState({ editing: false });
      if (text !== null) edit(conversation, message, text);
    };
    return html`<article class=${names({ message: true, [role]: true, last })} aria-label=${role === "user" ? "You" : "Answer"}>
      ${starts && html`<p class="divider"><span>Messages above are no longer sent</span></p>`}
      ${
        editing
          ? html`<${Editor} text=${message.text} role=${role} finish=${finish} />`
          : html`<${View} conversation=${conversation} message=${message} live=${live} last=${last} />
          ${
            !live &&
            html`<${Actions} conversation=${conversation} message=${message} all=${all}
            startEditing=${() => this.setState({ editing: true })} />`
          }`
      }
    </article>`;
  }
}

function UserText({ message }) {
  const [open, setOpen] = useState(false);
  const long = message.text.length > FOLD_CHARS;
  return html`<div class="bubble">
    ${
      message.attachments?.length > 0 &&
      html`<ul class="files">${message.attachments.map(
        (file) => html`<li class="file" key=${file.name}>
      <${Icon} name="file" /><span class="clip">${file.name}</span><span class="faint">${bytes(file.bytes)}</span></li>`,
      )}</ul>`
    }
    ${message.text && html`<div class=${names({ "user-text": true, folded: long && !open })}>${message.text}</div>`}
    ${
      long &&
      html`<${Button} class="quiet small" aria-expanded=${open} onClick=${() => setOpen(!open)}>
      ${open ? "Show less" : "Show all"}<//>`
    }
  </div>`;
}

function Answer({ conversation, message, live, last }) {
  const { text, reasoning, error } = message;
  return html`<div class="answer" aria-busy=${Boolean(live)}>
    ${reasoning && html`<${Thinking} message=${message} live=${live} />`}
    ${text && html`<${Markdown} text=${text} final=${!live} />`}
    ${message.calls && html`<${Calls} conversation=${conversation} message=${message} live=${live} last=${last} />`}
    ${live && html`<${Phase} live=${live} />`}
    ${error && html`<${Fault} conversation=${conversation} message=${message} last=${last} />`}
    ${!live && html`<${Cut} conversation=${conversation} message=${message} />`}
  </div>`;
}

/** Why an answer ends where it does, if that is not its natural end. */
function Cut({ conversation, message }) {
  const { text, reasoning, state, finish } = message;
  const reason = CUT[state] ?? (state === "done" ? CUT[finish] : null);
  if (!reason && (text || message.calls || state !== "done")) return null;
  const goOn = () => resume(conversation, message);
  return html`<p class="cut">
    <${Icon} name="warning" /> <span>${reason ?? EMPTY}</span>
    ${reason && (text || reasoning) && !message.calls && can.continue && html`<${Button} icon="play" onClick=${goOn}>Continue<//>`}
  </p>`;
}

function Actions({ conversation, message, all, startEditing }) {
  const [copied, setCopied] = useState(false);
  const doCopy = async () => {
    if (!(await copy(message.text))) return;
    setCopied(true);
    setTimeout(() => setCopied(false), 1600);
  };
  const user = message.role === "user";
  return html`<div class="actions">
    <${Branches} conversation=${conversation} message=${message} all=${all} />
    ${
      message.text &&
      html`<${IconButton} onClick=${doCopy}
      icon=${copied ? "check" : "copy"} label=${copied ? "Copied" : "Copy"} />`
    }
    ${
      (user || message.text) &&
      html`<${IconButton} onClick=${startEditing}
      icon="edit" label=${user ? "Edit and send again" : "Edit answer"} />`
    }
    ${!user && html`<${IconButton} icon="retry" label="Regenerate" onClick=${() => regenerate(conversation, message)} />`}
    ${!user && html`<${Figures} message=${message} name=${displayName(message.model)} />`}
  </div>`;
}

/** `< 2 / 3 >` between the versions of a message. */
function Branches({ conversation, message, all }) {
  if (all.length < 2) return null;
  const at = all.indexOf(message.id);
  const turn = (step) => () => {
    turnTo(conversation, message, step);
    keep(conversation);
    changed();
  };
  return html`<span class="branches" role="group" aria-label="Versions">
    <${IconButton} icon="left" label="Previous version" disabled=${at === 0} onClick=${turn(-1)} />
    <span class="tabular">${at + 1} / ${all.length}</span>
    <${IconButton} icon="right" label="Next version" disabled=${at === all.length - 1} onClick=${turn(1)} />
  </span>`;
}
