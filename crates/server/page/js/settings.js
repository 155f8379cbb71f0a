// Preferences of this browser (localStorage), the theme, and the API key.

const KEY = "zinc-settings";
const API_KEY = "zinc-api-key";
const defaults = { theme: "system", model: null, system: "", sampling: {}, sidebar: true };

function read() {
  try {
    return { ...defaults, ...JSON.parse(localStorage.getItem(KEY) ?? "{}") };
  } catch {
    return { ...defaults };
  }
}

export const settings = read();

/** Changes some preferences and keeps them, where the browser lets us. */
export function set(changes) {
  Object.assign(settings, changes);
  try {
    localStorage.setItem(KEY, JSON.stringify(settings));
  } catch {
    // Private windows may refuse; the choice then lasts as long as the tab.
  }
  applyTheme();
}

export function applyTheme() {
  const dark =
    settings.theme === "dark" || (settings.theme === "system" && matchMedia("(prefers-color-scheme: dark)").matches);
  document.documentElement.dataset.theme = dark ? "dark" : "light";
  const colour = dark ? "#16191c" : "#f7f8f8";
  document.querySelector('meta[name="theme-color"]')?.setAttribute("content", colour);
}

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", applyTheme);

/** This tab, over reloads. */
export const tabId = (() => {
  try {
    const id = sessionStorage.getItem("zinc-tab") ?? String(Math.random()).slice(2);
    sessionStorage.setItem("zinc-tab", id);
    return id;
  } catch {
    return String(Math.random()).slice(2);
  }
})();

/** A small value of this tab: drafts. */
export const tab = {
  get(name) {
    try {
      return sessionStorage.getItem(name) ?? "";
    } catch {
      return "";
    }
  },
  set(name, value) {
    try {
      if (value) sessionStorage.setItem(name, value);
      else sessionStorage.removeItem(name);
    } catch {
      // A draft that cannot be kept is still on screen.
    }
  },
};

let key = null;

export function apiKey() {
  try {
    key ??= localStorage.getItem(API_KEY) ?? sessionStorage.getItem(API_KEY);
  } catch {
    // No storage: the key lasts as long as the page.
  }
  return key;
}

/** Sets or (with "") forgets the key; kept in this browser only if `remember`. */
export function setApiKey(value, remember) {
  key = value || null;
  try {
    localStorage.removeItem(API_KEY);
    sessionStorage.removeItem(API_KEY);
    if (value) (remember ? localStorage : sessionStorage).setItem(API_KEY, value);
  } catch {
    // As above.
  }
}
