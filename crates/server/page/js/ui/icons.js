// Line icons, drawn on a 24-unit grid. They are decoration: buttons carry their own labels.

import { html } from "../html.js";

const PATHS = {
  menu: "M4 7h16M4 12h16M4 17h10",
  plus: "M12 5v14M5 12h14",
  search: "M11 4a7 7 0 1 0 0 14a7 7 0 0 0 0-14M16.2 16.2 20 20",
  send: "M12 19V5M6 11l6-6 6 6",
  stop: "M7 7h10v10H7z",
  clip: "M19 11.5l-7.3 7.3a4.6 4.6 0 0 1-6.5-6.5l7.8-7.8a3 3 0 0 1 4.3 4.3l-7.6 7.6a1.5 1.5 0 0 1-2.1-2.1l6.7-6.8",
  copy: "M9 9h10v11H9zM15 6V4H5v11h1",
  check: "M5 12.5l4.5 4.5L19 7.5",
  retry: "M19 12a7 7 0 1 1-2.2-5.1M19 4v4h-4",
  edit: "M5 19l1-4L16.5 4.5l3 3L9 18zM14 7l3 3",
  more: "M6 12h.01M12 12h.01M18 12h.01",
  left: "M14.5 6l-6 6 6 6",
  right: "M9.5 6l6 6-6 6",
  down: "M6 9.5l6 6 6-6",
  arrowDown: "M12 5v14M6 13l6 6 6-6",
  close: "M6 6l12 12M18 6L6 18",
  sliders: "M4 8h9M17 8h3M4 16h3M11 16h9M15 5.5v5M9 13.5v5",
  sun: "M12 8a4 4 0 1 0 0 8a4 4 0 0 0 0-8M12 3v2M12 19v2M3 12h2M19 12h2M5.6 5.6 7 7M17 17l1.4 1.4M18.4 5.6 17 7M7 17l-1.4 1.4",
  moon: "M19.5 14.5A8 8 0 0 1 9.5 4.5a8 8 0 1 0 10 10",
  system: "M4 5h16v11H4zM9 20h6",
  trash: "M5 7h14M10 7V4.5h4V7M7 7l1 13h8l1-13",
  download: "M12 4v11M7 11l5 5 5-5M5 20h14",
  upload: "M12 16V5M7 9l5-5 5 5M5 20h14",
  file: "M7 4h7l4 4v12H7zM14 4v4h4",
  play: "M8 6l10 6-10 6z",
  tool: "M20 7.5l-3.2 3.2-3.5-3.5L16.5 4a5 5 0 0 0-6.3 6.3L4 16.5 7.5 20l6.2-6.2A5 5 0 0 0 20 7.5",
  thought: "M9 18h6M10 21h4M12 3a6 6 0 0 0-3.6 10.8c.6.5 1 1.3 1 2.2h5.2c0-.9.4-1.7 1-2.2A6 6 0 0 0 12 3",
  warning: "M12 4l9 16H3zM12 10v4M12 17h.01",
  keyboard: "M3 7h18v10H3zM7 10.5h.01M11 10.5h.01M15 10.5h.01M8 14h8",
};

export function Icon({ name }) {
  return html`<svg class="icon" viewBox="0 0 24 24" aria-hidden="true" focusable="false"><path d=${PATHS[name]} /></svg>`;
}

/** A button with words and, before them, an icon. */
export function Button({ icon, class: look = "small", children, ...rest }) {
  return html`<button type="button" class=${look} ...${rest}>${icon && html`<${Icon} name=${icon} />`} ${children}</button>`;
}

/** A button that shows only an icon. */
export function IconButton({ icon, label, class: extra = "", ...rest }) {
  return html`<button type="button" class=${`icon-button ${extra}`} aria-label=${label} title=${label} ...${rest}>
    <${Icon} name=${icon} />
  </button>`;
}
