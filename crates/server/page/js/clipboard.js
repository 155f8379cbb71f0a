// Copies text, also where the page came over plain HTTP from another machine and has no clipboard API.

import { announce, toast } from "./store.js";

export async function copy(text) {
  try {
    if (navigator.clipboard) await navigator.clipboard.writeText(text);
    else copyBySelection(text);
    announce("Copied.");
    return true;
  } catch {
    toast("The browser did not allow copying. Select the text and copy it by hand.", { kind: "error" });
    return false;
  }
}

function copyBySelection(text) {
  const area = document.createElement("textarea");
  area.className = "visually-hidden";
  area.value = text;
  document.body.append(area);
  area.select();
  const copied = document.execCommand("copy");
  area.remove();
  if (!copied) throw new Error("refused");
}
