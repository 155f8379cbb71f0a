// What every view imports.

export {
  Component,
  Fragment,
  html,
  names,
  render,
  useEffect,
  useLayoutEffect,
  useMemo,
  useRef,
  useState,
} from "../html.js";
export { useStore } from "../store.js";
