// The one door between text from a model and the document: everything goes through here, and nothing leaves as a string.
//
// What passes is a short list of elements and attributes. No script, style, form, frame or image can pass, so output
// can neither run nor fetch anything; no id or foreign class can pass, so it can neither shadow the page's names nor
// dress up as its controls. The server's Content-Security-Policy forbids the same things once more.

import "../vendor/purify.js";

const purify = window.DOMPurify;

const TAGS = [
  "a",
  "b",
  "blockquote",
  "br",
  "code",
  "dd",
  "del",
  "details",
  "div",
  "dl",
  "dt",
  "em",
  "h1",
  "h2",
  "h3",
  "h4",
  "h5",
  "h6",
  "hr",
  "i",
  "input",
  "ins",
  "kbd",
  "li",
  "mark",
  "ol",
  "p",
  "pre",
  "q",
  "s",
  "small",
  "span",
  "strong",
  "sub",
  "summary",
  "sup",
  "table",
  "tbody",
  "td",
  "tfoot",
  "th",
  "thead",
  "tr",
  "u",
  "ul",
];
const ATTRIBUTES = [
  "href",
  "title",
  "class",
  "align",
  "start",
  "checked",
  "open",
  "type",
  "data-tex",
  "data-display",
  "data-language",
];
/** Classes that our own Markdown renderer writes. */
const CLASSES = new Set(["math", "remote-image", "task"]);

purify.addHook("afterSanitizeAttributes", (node) => {
  if (node.hasAttribute("class")) {
    const kept = [...node.classList].filter((name) => CLASSES.has(name) || name.startsWith("hljs-"));
    if (kept.length > 0) node.setAttribute("class", kept.join(" "));
    else node.removeAttribute("class");
  }
  if (node.nodeName === "A" && node.hasAttribute("href")) {
    if (/^(https?:|mailto:)/i.test(node.getAttribute("href").trim())) {
      node.setAttribute("target", "_blank");
      node.setAttribute("rel", "noopener noreferrer nofollow");
    } else {
      node.removeAttribute("href");
    }
  }
  if (node.nodeName === "INPUT" && node.getAttribute("type") !== "checkbox") {
    node.remove();
  } else if (node.nodeName === "INPUT") {
    node.setAttribute("disabled", "");
    node.setAttribute("aria-label", node.hasAttribute("checked") ? "done" : "to do");
  }
});

/** A fragment that is safe to insert. */
export function safeFragment(markup) {
  return purify.sanitize(markup, {
    ALLOWED_TAGS: TAGS,
    ALLOWED_ATTR: ATTRIBUTES,
    ALLOW_DATA_ATTR: false,
    ALLOW_ARIA_ATTR: false,
    ALLOW_UNKNOWN_PROTOCOLS: false,
    RETURN_DOM_FRAGMENT: true,
  });
}

/** The same for highlighted code: spans with classes, nothing else. */
export function safeCode(markup) {
  return purify.sanitize(markup, { ALLOWED_TAGS: ["span"], ALLOWED_ATTR: ["class"], RETURN_DOM_FRAGMENT: true });
}
