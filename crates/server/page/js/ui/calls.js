// Calls of tools: what the model wants to call, folded; and the place for what the tool gave. The page runs no tools.

import { html, names, useState } from "./base.js";
import { keep } from "../conversations.js";
import { sendResults } from "../generate.js";
import { touch } from "../store.js";
import { parseTools, pretty } from "../tools.js";
import { Button, Icon } from "./icons.js";

/** The calls of an answer. The last answer's wait for results. */
export function Calls({ conversation, message, live, last }) {
  const waits = !live && last && message.finish === "tool_calls";
  const open = message.calls.some((call) => call.result === null);
  const [drafts, setDrafts] = useState({});
  const submit = (event) => {
    event.preventDefault();
    message.calls.forEach((call, index) => {
      call.result ??= drafts[index] ?? "";
    });
    touch(message);
    keep(conversation);
    sendResults(conversation, message);
  };
  return html`<form class="calls" aria-label="Tool calls" onSubmit=${submit}>
    ${message.calls.map(
      (call, index) => html`<${Call} key=${index} call=${call} growing=${Boolean(live) && index === message.calls.length - 1}
      waits=${waits && call.result === null} draft=${drafts[index] ?? ""}
      write=${(text) => setDrafts({ ...drafts, [index]: text })} />`,
    )}
    ${
      waits &&
      open &&
      html`<div class="calls-foot">
      <span class="faint">This page runs no tools: say what ${message.calls.length > 1 ? "they gave" : "it gave"}.</span>
      <button type="submit" class="small primary">Send ${message.calls.length > 1 ? "results" : "result"}</button>
    </div>`
    }
  </form>`;
}

function Call({ call, growing, waits, draft, write }) {
  const [chosen, setChosen] = useState(null);
  const open = chosen ?? waits;
  const brief = call.arguments.replace(/\s+/g, " ").slice(0, 120);
  return html`<section class=${names({ call: true, active: growing })}>
    <button type="button" class="call-head quiet" aria-expanded=${open} onClick=${() => setChosen(!open)}>
      <${Icon} name="tool" /><span class="call-name">${call.name || "…"}</span>
      ${!open && html`<code class="clip faint">${brief}</code>`}
      <${Icon} name="down" />
    </button>
    ${
      open &&
      html`<div class="call-body">
      <pre tabindex="0" aria-label=${`Arguments of ${call.name}`}>${pretty(call.arguments)}</pre>
      ${call.result !== null && html`<p class="faint">Result</p><pre tabindex="0">${call.result}</pre>`}
      ${
        waits &&
        html`<textarea rows="2" aria-label=${`Result of ${call.name}`} placeholder=${`What ${call.name} gave`}
        value=${draft} onInput=${(e) => write(e.target.value)}></textarea>`
      }
    </div>`
    }
  </section>`;
}

/** The field of the settings in which a chat's tools are written down. */
export function ToolsField({ conversation, update }) {
  const text = conversation.tools ?? "";
  const [open, setOpen] = useState(text !== "");
  const { tools, error } = parseTools(text);
  if (!open) {
    return html`<div class="buttons start"><${Button} icon="tool" onClick=${() => setOpen(true)}>Add tools<//></div>`;
  }
  return html`<label class="field"><span>Tools</span>
    <textarea class="code-text" rows="6" spellcheck="false" aria-describedby="tools-hint" aria-invalid=${Boolean(error)}
      placeholder='[{"name": "get_weather", "parameters": {"type": "object", …}}]'
      value=${text} onInput=${(e) => update({ tools: e.target.value })}></textarea>
    <span id="tools-hint" class=${names({ hint: true, wrong: Boolean(error) })} role=${error ? "alert" : null}>
      ${error ?? `${tools.length === 0 ? "Functions as JSON, in the form of OpenAI's tools." : called(tools)} You give the results.`}
    </span></label>`;
}

const called = (tools) => `The model may call ${tools.map((tool) => tool.function.name).join(", ")}.`;
