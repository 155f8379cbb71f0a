// The view layer in one import: preact's renderer and hooks, with htm's tagged templates instead of a build step.

import { Component, Fragment, h, render } from "../vendor/preact.js";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "../vendor/hooks.js";
import htm from "../vendor/htm.js";

export const html = htm.bind(h);
export { Component, Fragment, render, useEffect, useLayoutEffect, useMemo, useRef, useState };

/** Class names from an object: `names({ row: true, open })`. */
export function names(flags) {
  return Object.keys(flags)
    .filter((name) => flags[name])
    .join(" ");
}
